"""Galleries in a folder and on a PostgreSQL server of the tests' own."""

import secrets

import pytest


@pytest.fixture(params=["folder", "server"])
def place(request, tmp_path):
    """Addresses by names: folders, or galleries on the server."""
    if request.param == "folder":
        return lambda name: tmp_path / name
    address, mark = request.getfixturevalue("server"), secrets.token_hex(4)
    return lambda name: f"{address}&gallery={name}_{mark}"
