# `make demo` and `make test` need only make, git and python3 (3.11+) with venv.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
WORKERS ?= auto
PYTEST := $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal

.PHONY: demo test quick check bench clean
.DEFAULT_GOAL := test

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	touch $@

demo: $(VENV)/.installed  ## train on some digits, test on digits never seen; writes samekind-demo/
	$(BIN)/samekind demo

test: $(VENV)/.installed check  ## linters, types, import layers, then all tests, in as many processes as there are cores
	$(PYTEST)

quick: $(VENV)/.installed  ## the tests that are not marked slow
	$(PYTEST) -m "not slow"

check: $(VENV)/.installed  ## linters, types, import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: $(VENV)/.installed  ## the quick form of every benchmark
	for name in imports descriptors encode extract store gradient memory solvers lmnn serve; do $(BIN)/python benchmarks/$$name.py --quick || exit 1; done

clean:
	find src -name '*.nb[ci]' -delete
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis samekind-demo
