"""Work in threads, results in order."""

import os
import threading
import time

import pytest
import threadpoolctl

from samekind.compute.executor import Executor
from samekind.threads import effective_threads, single_threaded_blas


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_results_come_in_the_order_of_the_items(n_jobs):
    def slow_when_early(item):
        time.sleep(0.002 * (item < 3))
        return item**2

    assert list(Executor(n_jobs).map(slow_when_early, range(20))) == [item**2 for item in range(20)]


def test_one_thread_works_in_the_callers():
    assert set(Executor(1).map(lambda _: threading.get_ident(), range(3))) == {threading.get_ident()}


def test_several_threads_work_at_once():
    meeting = threading.Barrier(3, timeout=10)  # breaks unless three threads meet
    assert list(Executor(3).map(lambda item: meeting.wait() >= 0 and item, range(3))) == [0, 1, 2]


def test_work_under_way_is_bounded():
    started = []

    def note(item):
        started.append(item)
        return item

    results = Executor(2).map(note, range(100))
    next(results)
    time.sleep(0.05)
    assert len(started) <= 5
    results.close()


def test_an_error_in_a_thread_reaches_the_caller_and_the_executor_lives_on():
    executor = Executor(2)
    with pytest.raises(ZeroDivisionError):
        list(executor.map(lambda item: 1 // item, [1, 0, 2]))
    assert list(executor.map(abs, [-1, 2])) == [1, 2]


def test_blas_is_held_to_one_thread_meanwhile():
    def blas_threads(_=None):
        return {lib["num_threads"] for lib in threadpoolctl.threadpool_info() if lib["user_api"] == "blas"}

    before = blas_threads()
    assert list(Executor(1).map(blas_threads, [0])) == [{1}]
    with single_threaded_blas():
        assert blas_threads() == {1}
    assert blas_threads() == before


@pytest.mark.parametrize(("n_jobs", "of_four"), [(None, 4), (-1, 4), (-2, 3), (-4, 1), (-9, 1), (1, 1), (7, 7)])
def test_numbers_of_jobs_mean_what_scikit_learn_means(n_jobs, of_four, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(4), raising=False)
    assert effective_threads(n_jobs) == of_four


def test_no_jobs_at_all_is_an_error():
    with pytest.raises(ValueError, match="n_jobs=0 means no work at all"):
        Executor(0)
