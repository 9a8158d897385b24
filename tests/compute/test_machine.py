"""What is said of a machine depends on the libraries that compute, and on no others."""

import threadpoolctl

from samekind.compute.machine import description

OWN = [
    {"user_api": "blas", "internal_api": "openblas", "version": "1.2", "architecture": "A", "filepath": path}
    for path in ("/x/site-packages/numpy.libs/libblas.so", "/x/site-packages/scipy.libs/libblas.so")
]
OTHERS = [
    {
        "user_api": "blas",
        "internal_api": "mkl",
        "version": "9",
        "architecture": "B",
        "filepath": "/x/mkl.so",
    },
    {"user_api": "openmp", "internal_api": "openmp", "version": None, "filepath": "/x/numpy.libs/libgomp.so"},
]


def test_blas_of_other_packages_does_not_count(monkeypatch):
    monkeypatch.setattr(threadpoolctl, "threadpool_info", lambda: OWN + OTHERS)
    assert description()["blas"] == "openblas 1.2 A, openblas 1.2 A"


def test_a_blas_of_the_system_counts_where_there_is_no_other(monkeypatch):
    monkeypatch.setattr(threadpoolctl, "threadpool_info", lambda: OTHERS)
    assert description()["blas"] == "mkl 9 B"
