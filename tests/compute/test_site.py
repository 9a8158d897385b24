"""Sites: state made from a recipe and a log, and messages that say what a worker lacks."""

from dataclasses import replace

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from samekind import threads
from samekind.compute import site as room
from samekind.compute.packing import packed
from samekind.compute.site import Done, Message, Missing, Recipe, Site, opened, perform


class Counting(Site):
    """Adds up its log."""

    def __init__(self, first, token=None):
        super().__init__(token)
        self.first = first
        self.objective = self

    def __reduce__(self):
        return Counting, (self.first, self.token)


def total_on(site, share, times):
    return times * (site.first + sum(site.log[:10])), list(share)


def message(site, *, recipe=True, since=0, log=(), ended=(), times=1, worker="w"):
    own = packed(site) if recipe else None
    return Message(worker, list(ended), site.token, own, since, list(log), total_on, [3], packed((times,)))


@pytest.fixture(autouse=True)
def nothing_kept():
    room._sites.clear()


def test_a_site_is_made_once_and_follows_the_log():
    site = Counting(5)
    assert perform(message(site, log=[1, 2])).result == (8, [3])
    made = room._sites["w"][site.token]
    assert perform(message(site, recipe=False, since=2, log=[10], times=2)).result == (36, [3])
    assert room._sites["w"][site.token] is made


def test_a_worker_says_what_it_lacks():
    site = Counting(5)
    assert perform(message(site, recipe=False, since=1)) == Missing(True, 0)
    assert isinstance(perform(message(site, log=[1])), Done)
    assert perform(message(site, recipe=False, since=3)) == Missing(False, 1)


def test_workers_of_one_process_have_sites_of_their_own():
    site = Counting(5)
    perform(message(site, log=[1]))
    assert perform(message(site, recipe=False, since=1, worker="other")) == Missing(True, 0)


def test_sites_that_ended_are_let_go():
    old, new = Counting(1), Counting(2)
    perform(message(old))
    perform(message(new, ended=[old.token]))
    assert list(room._sites["w"]) == [new.token]


def test_few_sites_are_kept():
    for number in range(room.MOST_SITES + 3):
        perform(message(Counting(number)))
    assert len(room._sites["w"]) == room.MOST_SITES


def test_a_recipe_needs_a_site():
    def made(site, leaves, *arguments):
        return "made", leaves, arguments

    assert opened("as it is", None, ()) == "as it is"
    assert opened(Recipe(made, 1, 2), Counting(0), (3,)) == ("made", (3,), (1, 2))
    with pytest.raises(TypeError, match=r"made is a recipe.* no site"):
        opened(Recipe(made), None, ())


def blas_threads(objective, share, times):
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_a_worker_computes_with_one_blas_thread():
    """As the estimators do where there is no worker: a product made by two threads may have other last bits."""
    threads._controller.cache_clear()  # of libraries that other tests have loaded since
    asked = replace(message(Counting(0)), operation=blas_threads)
    with threadpool_limits(2, user_api="blas"):
        assert blas_threads(None, None, 1) == {2}
        assert perform(asked).result == {1}
        assert blas_threads(None, None, 1) == {2}
