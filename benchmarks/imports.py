"""What importing samekind costs over `import numpy, scipy.linalg, sklearn.base`, and what it loads.

Fresh interpreters, all taking turns; the median of each counts, whole processes from start to end.
"""

import subprocess
import sys
from functools import partial

from harness import Report, median_of, parser

STATEMENTS = {
    "base": "import numpy, scipy.linalg, sklearn.base",
    "package": "import samekind",
    "estimators": "from samekind import EnsembleMetric",
}
UNWANTED = ["matplotlib", "rich", "typer", "jinja2", "cv2", "PIL", "pandas", "hypothesis", "pytest"]
HEAVY = [
    *["numpy", "scipy.linalg", "scipy.optimize", "scipy.sparse", "scipy.spatial", "scipy.special", "scipy.stats"],
    *["sklearn.base", "sklearn.metrics", "sklearn.neighbors", "joblib", "numba", "safetensors", "threadpoolctl"],
]
TARGET_SECONDS = 0.3


def run(statement: str) -> str:
    command = [sys.executable, "-c", statement]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def loaded(statement: str, modules: list[str]) -> list[str]:
    """Those of the modules that a fresh interpreter holds after the statement."""
    return run(f"{statement}\nimport sys\nprint(*[m for m in {modules} if m in sys.modules])").split()


def main() -> None:
    repeats = 7 if parser(__doc__).parse_args().quick else 15
    for statement in STATEMENTS.values():
        run(statement)  # byte code written, files in the page cache
    times = median_of([partial(run, statement) for statement in STATEMENTS.values()], repeats)
    seconds = dict(zip(STATEMENTS, times, strict=True))
    of_sklearn = set(loaded(STATEMENTS["base"], UNWANTED))  # pandas, where it is installed
    unwanted: set[str] = set()
    print(f"median of {repeats} fresh interpreters")
    for name, statement in STATEMENTS.items():
        extra = seconds[name] - seconds["base"]
        print(f"{seconds[name]:.3f} s, {extra:+.3f} s  {statement}")
        print(f"    heavy modules: {', '.join(loaded(statement, HEAVY)) or 'none'}")
        unwanted |= set(loaded(statement, UNWANTED)) - of_sklearn
    report = Report("imports")
    report.hold("package", seconds["package"] - seconds["base"], at_most=TARGET_SECONDS)
    report.note("estimators", seconds["estimators"] - seconds["base"])
    print(f"loaded and not wanted: {', '.join(sorted(unwanted)) or 'nothing'}")
    report.hold("unwanted", len(unwanted), at_most=0)
    report.end()


if __name__ == "__main__":
    main()
