import pytest

from samekind.threads import single_threaded_blas
from tests import cases


@pytest.fixture(params=cases.BOTH_LOSSES)
def loss(request):
    return request.param


@pytest.fixture(params=["convex", "factored"])
def solver(request):
    return request.param


@pytest.fixture(autouse=True)
def one_blas_thread():
    """As the estimators have it; for work so small more would only wait for each other."""
    with single_threaded_blas():
        yield
