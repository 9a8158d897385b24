"""Fits stay within the memory that they were allowed: far below a matrix of all pairs."""

import json
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

N = 5_000
ALL_PAIRS = 4 * N**2 / 1e6  # MB, in float32: 100
BUDGET = 48  # MB
OVERHEAD = 40  # MB: copies of the data, or of single groups of them, buffers of BLAS, what Python does not give back

JOINT = {"anchors": "grow", "tol": 0.05, "solver": "factored"}
BLOCKS = {"search": "fast", "max_groups": 2, "max_iter": 3, "feature_groups": 4}
MANY, FEW = N // 10, 10  # classes: with few of them, many pairs are of one class
FITS = {
    "joint, pairs, few classes": ["JointMetric", JOINT | {"loss": "pairwise", "max_iter": 2}, FEW],
    "joint, triplets, many classes": ["JointMetric", JOINT | {"loss": "triplet"}, MANY],
    "joint, convex, few classes": ["JointMetric", JOINT | {"solver": "convex", "max_iter": 2}, FEW],
    "blocks, pairs, few classes": ["SparseBlockMetric", BLOCKS | {"loss": "pairwise"}, FEW],
    "blocks, triplets, few classes": ["SparseBlockMetric", BLOCKS | {"loss": "triplet"}, FEW],
    "blocks, triplets, many classes": ["SparseBlockMetric", BLOCKS | {"loss": "triplet"}, MANY],
}
ON_ALL_ROWS = {"joint, triplets, many classes", "joint, convex, few classes"}
UNBOUNDED = "all the memory they like"

# The peak of each fit above what was there before it, once everything is loaded and compiled.
MEASURE = """
import json, sys
import numpy as np
import samekind

def kilobytes(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name))

def data(n, n_classes):
    rng = np.random.default_rng(0)
    y = np.arange(n) % n_classes
    X = rng.normal(size=(n_classes, 48))[y] * np.repeat(rng.uniform(0.1, 0.9, 12), 4) + rng.normal(size=(n, 48))
    return X.astype(np.float32), y

def fit(kind, parameters, X, y):
    model = getattr(samekind, kind)(**parameters, random_state=0, n_jobs=2)
    return model.fit(X[:, :20] if kind == "JointMetric" else X, y).history_[-1]["n_anchors"]

n, fits = json.loads(sys.argv[1])
measured = {}
for name, (kind, parameters, n_classes) in fits.items():
    fit(kind, parameters, *data(400, 20))
    X, y = data(n, n_classes)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak is counted from here
    before = kilobytes("VmRSS")
    n_anchors = fit(kind, parameters, X, y)
    measured[name] = (kilobytes("VmHWM") - before) * 1024 / 1e6, n_anchors
print(json.dumps(measured))
"""


@pytest.fixture(scope="module")
def measured():
    """MB by which each fit's peak lies above the memory before it, and the rows whose pairs it went over in the end."""
    if not os.access("/proc/self/clear_refs", os.W_OK):
        pytest.skip("peaks of memory are read from /proc, as Linux has it")
    fits = {name: [kind, p | {"memory_budget": f"{BUDGET}MB"}, n] for name, (kind, p, n) in FITS.items()}
    fits[UNBOUNDED] = ["SparseBlockMetric", BLOCKS | {"loss": "triplet", "memory_budget": "2GB"}, MANY]
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, json.dumps([N, fits])], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", FITS)
def test_a_fit_takes_no_more_than_its_budget_and_a_little(name, measured):
    peak, n_anchors = measured[name]
    assert BUDGET + OVERHEAD < ALL_PAIRS
    assert peak < BUDGET + OVERHEAD
    assert (n_anchors == N) == (name in ON_ALL_ROWS)


def test_without_a_bound_it_would_take_more(measured):
    """So the measure can tell."""
    peak, _ = measured[UNBOUNDED]
    assert peak > BUDGET + OVERHEAD
