"""What decides the last bits of a result on a machine."""

import platform
from pathlib import PurePath


def description() -> dict[str, str]:
    """What decides the last bits of a result: processor, and the libraries that compute."""
    import numpy
    import scipy.linalg  # noqa: F401 - loads a BLAS of its own
    import threadpoolctl

    from samekind._version import __version__

    loaded = [each for each in threadpoolctl.threadpool_info() if each.get("user_api") == "blas"]
    used = [each for each in loaded if _is_ours(each.get("filepath", ""))] or loaded
    blas = sorted(f"{each.get('internal_api')} {each.get('version')} {each.get('architecture')}" for each in used)
    return {
        "samekind": __version__,
        "numpy": numpy.__version__,
        "processor": _processor(),
        "machine": platform.machine(),
        "blas": ", ".join(blas),
    }


def _is_ours(path: str) -> bool:
    """Whether numpy or scipy brought this library; opencv and faiss have others, which compute nothing here."""
    return any(part.startswith(("numpy", "scipy")) for part in PurePath(path).parts)


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            return next(line.partition(":")[2].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()
