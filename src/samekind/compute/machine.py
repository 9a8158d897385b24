"""What decides the last bits of a result on a machine."""

import platform


def description() -> dict[str, str]:
    """What decides the last bits of a result: processor, and the libraries that compute."""
    import numpy
    import scipy.linalg  # noqa: F401 - loads a BLAS of its own
    import threadpoolctl

    from samekind._version import __version__

    blas = sorted(
        f"{each.get('internal_api')} {each.get('version')} {each.get('architecture')}"
        for each in threadpoolctl.threadpool_info()
        if each.get("user_api") == "blas"
    )
    return {
        "samekind": __version__,
        "numpy": numpy.__version__,
        "processor": _processor(),
        "machine": platform.machine(),
        "blas": ", ".join(blas),
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            return next(line.partition(":")[2].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()
