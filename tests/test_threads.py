"""The package's own thread pools."""

import threading
import time
from pathlib import Path

import pytest

import samekind
from samekind.threads import ThreadPool


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_pool_runs_a_function_on_every_item_before_it_goes_on(n_jobs):
    done = []
    with ThreadPool(n_jobs) as pool:
        pool.run(done.append, range(20))
        assert sorted(done) == list(range(20))


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("method", ["map", "run"])
def test_an_error_in_a_thread_reaches_the_caller(n_jobs, method):
    with ThreadPool(n_jobs) as pool, pytest.raises(ZeroDivisionError):
        list(getattr(pool, method)(lambda item: 1 // item, [1, 0, 2]) or ())


def test_work_that_waits_is_dropped_when_the_caller_fails():
    begun = []

    def work(pool, item):
        begun.append(item)
        while not pool._shutdown:
            time.sleep(0.001)
        with pool._shutdown_lock:  # held until all that waits is dropped
            pass

    def fail():
        with ThreadPool(2) as pool:
            for item in range(10):
                pool._pool.submit(work, pool._pool, item)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert len(begun) <= 2


def test_threads_end_with_the_block():
    before = threading.active_count()
    with ThreadPool(3) as pool:
        meeting = threading.Barrier(3, timeout=10)
        assert len(list(pool.map(lambda _: meeting.wait(), range(3)))) == 3
    assert threading.active_count() == before


def test_no_other_module_starts_threads():
    root = Path(samekind.__file__).parent
    starting = [path for path in root.rglob("*.py") if "ThreadPoolExecutor" in path.read_text("utf-8")]
    assert starting == [root / "threads.py"]
