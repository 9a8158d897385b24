"""What every test shares: one hypothesis profile with the same draws each time, and strict warnings on request."""

import warnings

import pytest
from hypothesis import settings

settings.register_profile("samekind", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("samekind")


@pytest.fixture
def strict_warnings():
    """Any warning is an error, wherever it comes from."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
