"""Line 4 of Algorithm 1 by sketches: the group that an exact search would take, or one nearly as good."""

import json
from itertools import pairwise

import numpy as np
import pytest

from samekind.compute.sources import PresentDistances
from samekind.kernels.spectral import leading_factor
from samekind.solvers import search, traces
from samekind.solvers.blocks import BlockMetric, BlockProblem
from samekind.solvers.forecast import Outlook
from samekind.solvers.projected import minimise
from samekind.solvers.search import ExactSearch, FastSearch, Scoring
from samekind.store import ArrayStore, FeatureGroups, RowsOf, WhitenedStore, Whitening, centred
from samekind.threads import single_threaded_blas
from tests import cases, stores

RIDGE = 0.1
PLANTED = (3, 17, 38)
DETAILS = {"sketched", "mended", "rescored", "sketch_rank", "sketch_missed", "score_spread", "forecast_spread"}


@pytest.fixture(params=cases.BOTH_LOSSES)
def loss(request):
    return request.param


@pytest.fixture(autouse=True)
def one_blas_thread():
    """As the estimators have it; for work so small more would only wait for each other."""
    with single_threaded_blas():
        yield


def planted(n_groups=40, sizes=(6, 4, 5, 1, 6, 5, 4, 5), seed=0, dtype=np.float32):
    """Eight classes, told apart by three bits, each in one of the planted groups of two; the other groups are noise."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(8), sizes))
    X = 0.6 * rng.normal(size=(len(labels), 2 * n_groups))
    for bit, k in enumerate(PLANTED):
        X[:, 2 * k : 2 * k + 2] = X[:, 2 * k : 2 * k + 2] + 1.5 * (labels >> bit & 1)[:, None]
    return X.astype(dtype), labels


def mixed(n_classes=75, per_class=4, n_groups=60, seed=0):
    """Every group says something, some much more than others: N = 300, groups of three."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(n_classes), per_class)
    strength = np.repeat(rng.uniform(0.1, 0.8, n_groups), 3)
    X = rng.normal(size=(n_classes, 3 * n_groups))[labels] * strength + 0.6 * rng.normal(
        size=(len(labels), 3 * n_groups)
    )
    return X.astype(np.float32), labels


def array_store(X, size):
    return ArrayStore(X, FeatureGroups.parse(size, X.shape[1]))


def scoring_of(loss, store, X, labels, norm="frobenius", n_jobs=1):
    case = cases.case_of(loss, X.astype(store.dtype), labels, block=64, n_jobs=n_jobs)
    return Scoring(case.objective, store, RIDGE, norm)


def rounds(scoring, choose, n_rounds):
    """Algorithm 1, `choose(weights, metric, n_rounds)` being its line 4."""
    objective = scoring.objective
    present, metric = PresentDistances(objective.plan, objective.dtype, cases.PLENTY), BlockMetric()
    for t in range(n_rounds):
        k = choose(objective.weights(present).kept(), metric, t)
        Z = centred(scoring.store.panel([k], scoring.rows))
        problem = BlockProblem(objective, Z, RIDGE, present, metric.norm(), metric.block(k, Z.shape[1]))
        solution = minimise(problem, problem.start, tol=1e-2, max_iter=40)
        alpha, A = problem.unpack(solution.x)
        present.update(alpha, Z @ leading_factor(A).astype(Z.dtype), objective.executor)
        metric.add(k, A, alpha)
    return metric


def choices(finder, scoring, n_rounds):
    """What a search chooses when it is followed."""
    made = []

    def choose(weights, metric, t):
        made.append(finder.best(weights, metric, t))
        return made[-1].group

    rounds(scoring, choose, n_rounds)
    return made


def all_groups(scoring):
    return list(range(len(scoring.store.group_sizes)))


# -- everything looked at, nothing missed -----------------------------------------------------------------------------


@pytest.fixture
def exhaustive(monkeypatch):
    monkeypatch.setattr(search, "FIRST_RANK", 100)
    monkeypatch.setattr(search, "LARGEST_RANK", 100)
    monkeypatch.setattr(search, "AT_LEAST", 1000)
    monkeypatch.setattr(search, "TOLERATED", 1.0)


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory):
    X, labels = planted()
    order = np.random.default_rng(4).permutation(len(X))
    store = stores.disk_store(tmp_path_factory.mktemp("stores") / "store", X[order], labels[order], {"a": 2, "b": 4})
    return RowsOf(store, np.argsort(order))


def whitened(store):
    return WhitenedStore(store, Whitening.learned(store, np.arange(36), dims=2))


STORES = {
    "array": lambda on_disk: array_store(planted()[0], 2),
    "array of float64": lambda on_disk: array_store(planted(dtype=np.float64)[0], 3),
    "disk": lambda on_disk: on_disk,
    "whitened array": lambda on_disk: whitened(array_store(planted()[0], 3)),
    "whitened disk": whitened,
}


@pytest.mark.parametrize(
    ("kind", "norm"),
    [*((kind, "frobenius") for kind in STORES), ("array of float64", "spectral"), ("whitened disk", "spectral")],
)
def test_a_full_look_chooses_as_the_exact_search(loss, kind, norm, on_disk, exhaustive):
    X, labels = planted()
    store = STORES[kind](on_disk)
    scoring = scoring_of(loss, store, X, labels, norm)
    groups = all_groups(scoring)
    fast, exact = FastSearch(scoring, groups, 0), ExactSearch(scoring, groups)

    def both(weights, metric, t):
        one, other = fast.best(weights, metric, t), exact.best(weights, metric, t)
        assert one.group == other.group
        assert one.score == pytest.approx(other.score, rel=1e-4)  # float32, in panels of other groups
        assert one.details["sketched"] == len(groups)
        if one.details["sketch_missed"] < 1e-3:  # after the first round there are directions for equal weights only
            assert np.abs(fast.shifts[-3:]).max() < 1e-4
        return one.group

    metric = rounds(scoring, both, 7)
    assert len(metric.blocks) > 2


@pytest.mark.parametrize("sample", ["sampled", "sampled_pairs"])
def test_a_full_look_at_a_sample_chooses_as_an_exact_search_of_the_sample(loss, sample, exhaustive):
    X, labels = planted()
    scoring = scoring_of(loss, array_store(X, 2), X, labels)
    objective = getattr(scoring.objective, sample)(20, np.random.RandomState(0))
    scoring = Scoring(objective, scoring.store, RIDGE, "frobenius")
    groups = all_groups(scoring)
    weights = objective.weights(cases.under(X[scoring.rows], np.zeros((80, 80)))).kept()
    fast, exact = (
        finder.best(weights, BlockMetric(), 0)
        for finder in (FastSearch(scoring, groups, 0), ExactSearch(scoring, groups))
    )
    assert fast.group == exact.group
    assert fast.score == pytest.approx(exact.score, rel=1e-5)


def test_only_the_groups_named_are_chosen(loss):
    X, labels = planted()
    scoring = scoring_of(loss, array_store(X, 2), X, labels)
    named = [5, PLANTED[1], 9, 30]
    made = choices(FastSearch(scoring, named, 0), scoring, 3)
    assert made[0].group == PLANTED[1]
    assert {choice.group for choice in made} <= set(named)


def test_sketched_scores_are_those_of_their_group_in_any_order(loss, exhaustive):
    X, labels = planted()
    scoring = scoring_of(loss, array_store(X, 2), X, labels)
    finder = FastSearch(scoring, all_groups(scoring), 0)
    weights = scoring.objective.weights(cases.under(X[scoring.rows], 0.02 * np.eye(80, dtype=np.float32)))
    laplacian = finder._sketch(weights, 0)[0]
    order = np.random.default_rng(0).permutation(40).tolist()
    metric = BlockMetric()
    metric.add(7, cases.random_psd(2), 1.0)
    scores = scoring.sketched(laplacian, order, metric)
    assert cases.relative_error(scores, scoring.exact(weights, order, metric)) < 1e-4


@pytest.mark.parametrize("norm", ["frobenius", "spectral"])
def test_scores_mended_along_all_directions_are_exact_and_along_few_nearly(loss, norm, monkeypatch):
    monkeypatch.setattr(search, "FIRST_RANK", 4)  # a rough sketch
    rng = np.random.default_rng(1)
    labels = np.repeat(np.arange(40), 3)
    X = np.hstack([s * rng.normal(size=(40, 8))[labels] + rng.normal(size=(120, 8)) for s in rng.uniform(0.3, 1, 12)])
    X = X.astype(np.float32)
    scoring = scoring_of(loss, array_store(X, 8), X, labels, norm)
    weights = scoring.objective.weights(cases.under(X[scoring.rows], 0.001 * np.eye(96, dtype=np.float32))).kept()
    metric, groups = BlockMetric(), [3, 0, 7, 11]
    metric.add(7, cases.random_psd(8), 0.1)
    laplacian = FastSearch(scoring, all_groups(scoring), 0)._sketch(weights, 0)[0]
    exact, sketched = scoring.exact(weights, groups, metric), scoring.sketched(laplacian, groups, metric)
    np.testing.assert_allclose(scoring.mended(weights, laplacian, groups, metric), exact, rtol=1e-5)
    monkeypatch.setattr(search, "DIRECTIONS", 4)
    mended = scoring.mended(weights, laplacian, groups, metric)
    assert np.abs(mended / exact - 1).max() < 0.5 * np.abs(sketched / exact - 1).max()


def test_the_groups_of_no_one_have_no_scores(exhaustive):
    X, labels = planted()
    scoring = scoring_of("triplet", array_store(X, 2), X, labels)
    weights = scoring.objective.weights(cases.under(X[scoring.rows], np.zeros((80, 80))))
    laplacian = FastSearch(scoring, all_groups(scoring), 0)._sketch(weights, 0)[0]
    assert scoring.sketched(laplacian, [], BlockMetric()).shape == (0,)


@pytest.mark.parametrize("offset", [0.0, 10.0])
def test_whitening_of_unlike_directions_far_from_zero_leaves_the_scores_right(offset, exhaustive):
    """Of a group's directions one varies a hundred times as much as another: whitened, they count the same."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(20), 4)
    groups = []
    for strength in rng.uniform(0.1, 0.8, 10):
        turned, _ = np.linalg.qr(rng.normal(size=(6, 6)))
        Z = strength * rng.normal(size=(20, 6))[labels] + rng.normal(size=(80, 6))
        groups.append(Z * np.logspace(0, -2, 6) @ turned + offset)
    X = np.hstack(groups).astype(np.float32)
    raw = array_store(X, 6)
    store = WhitenedStore(raw, Whitening.learned(raw, np.arange(80), dims=None))
    scoring = scoring_of("triplet", store, X, labels)
    Z = X[scoring.rows] - X.mean(axis=0)
    weights = scoring.objective.weights(cases.under(Z, 0.05 * np.eye(60, dtype=np.float32)))
    laplacian = FastSearch(scoring, all_groups(scoring), 0)._sketch(weights, 0)[0]
    sketched = scoring.sketched(laplacian, all_groups(scoring), BlockMetric())
    np.testing.assert_allclose(sketched, scoring.exact(weights, all_groups(scoring), BlockMetric()), rtol=0.02)


# -- lazily -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def lazy(monkeypatch):
    """Few groups at a time, and rough sketches."""
    monkeypatch.setattr(search, "AT_LEAST", 6)
    monkeypatch.setattr(search, "FIRST_RANK", 4)


@pytest.mark.parametrize("seed", [0, 1])
def test_planted_groups_are_found_without_looking_at_all_others(loss, seed, lazy):
    X, labels = planted(sizes=(9,) * 8, seed=seed)
    scoring = scoring_of(loss, array_store(X, 2), X, labels)
    made = choices(FastSearch(scoring, all_groups(scoring), 0), scoring, 3)
    assert {choice.group for choice in made} == set(PLANTED)
    assert made[0].details["sketched"] == 40
    assert min(choice.details["sketched"] for choice in made) < 30


def test_little_is_lost_in_any_round(loss, lazy):
    X, labels = mixed()
    scoring = scoring_of(loss, array_store(X, 3), X, labels)
    groups = all_groups(scoring)
    fast = FastSearch(scoring, groups, 0)
    lost, looked = [], []

    def choose(weights, metric, t):
        choice, scores = fast.best(weights, metric, t), scoring.exact(weights, groups, metric)
        assert choice.score == pytest.approx(scores[choice.group], rel=1e-6)
        lost.append(1 - choice.score / scores.max())
        looked.append(choice.details["sketched"])
        return choice.group

    metric = rounds(scoring, choose, 16)
    assert len(metric.blocks) > 8
    assert max(lost) <= 0.02
    assert np.mean(looked[1:]) < 50


def test_a_group_whose_score_rises_again_is_only_overlooked_for_a_while(loss, lazy):
    """It is the less certain the longer it was not looked at, and comes back into view."""
    X, labels = planted()
    scoring = scoring_of(loss, array_store(X, 2), X, labels)
    fast = FastSearch(scoring, all_groups(scoring), 0)

    def choose(weights, metric, t):
        choice = fast.best(weights, metric, t)
        if t == 0:
            fast.known.expected[PLANTED[2]] -= np.log(3)  # as if it had been low when last looked at
        return choice.group

    assert PLANTED[2] in rounds(scoring, choose, 5).blocks


def test_leaders_doubtful_and_random_groups_are_looked_at_first(monkeypatch):
    monkeypatch.setattr(search, "AT_LEAST", 16)
    X, labels = planted()
    scoring = scoring_of("triplet", array_store(X, 2), X, labels)
    finder = FastSearch(scoring, all_groups(scoring), 0)
    expected, variance = -np.arange(40.0), np.zeros(40)
    variance[[33, 20]] = 100.0, 64.0  # three standard deviations are 30 and 24
    first, again, other = (finder._first(Outlook(expected, variance), n_rounds).tolist() for n_rounds in (3, 3, 4))
    assert first[:14] == [*range(12), 20, 33]
    assert len(set(first)) == 16
    assert first == again
    assert first[:14] == other[:14]
    assert first[14:] != other[14:]


# -- what it tells and remembers --------------------------------------------------------------------------------------


def test_each_round_tells_what_was_done(loss, lazy):
    X, labels = planted()
    scoring = scoring_of(loss, array_store(X, 2), X, labels)
    for choice in choices(FastSearch(scoring, all_groups(scoring), 0), scoring, 4):
        details = choice.details
        assert details.keys() >= DETAILS
        assert json.loads(json.dumps(details)) == details
        assert 1 <= details["rescored"] <= details["mended"] <= details["sketched"] <= 40
        assert 1 <= details["sketch_rank"] <= len(X)
        assert 0 < details["sketch_missed"] < 1.5
        assert 0 <= details["score_spread"] < np.inf
        assert 0 <= details["forecast_spread"] < np.inf


def test_the_rank_grows_while_sketches_mislead_and_no_further_than_it_may(loss, monkeypatch):
    monkeypatch.setattr(search, "FIRST_RANK", 1)
    monkeypatch.setattr(search, "LARGEST_RANK", 8)
    monkeypatch.setattr(search, "REMEMBERED", 2)
    monkeypatch.setattr(search, "AGREEING", 0.0)
    X, labels = planted()
    scoring = scoring_of(loss, array_store(X, 2), X, labels)
    ranks = [c.details["sketch_rank"] for c in choices(FastSearch(scoring, all_groups(scoring), 0), scoring, 8)]
    assert ranks[0] == 1
    assert ranks[-1] == 8
    assert all(before <= after for before, after in pairwise(ranks))
    monkeypatch.setattr(search, "AGREEING", np.inf)
    ranks = [c.details["sketch_rank"] for c in choices(FastSearch(scoring, all_groups(scoring), 0), scoring, 3)]
    assert ranks == [1, 1, 1]


def test_a_search_goes_on_as_it_would_have_from_what_it_remembers(loss, lazy):
    X, labels = planted()
    scoring = scoring_of(loss, array_store(X, 2), X, labels)
    first = FastSearch(scoring, all_groups(scoring), 5)
    others = []

    def choose(weights, metric, t):
        choice = first.best(weights, metric, t)
        for other in others:
            again = other.best(weights, metric, t)
            assert again == choice
        arrays, facts = first.memory()
        follower = FastSearch(scoring, all_groups(scoring), 5)
        follower.recall({name: array.copy() for name, array in arrays.items()}, json.loads(json.dumps(facts)))
        others.append(follower)
        return choice.group

    rounds(scoring, choose, 5)
    assert len(others) == 5


def test_what_was_remembered_is_not_changed_by_later_rounds(loss, lazy):
    X, labels = planted()
    scoring = scoring_of(loss, array_store(X, 2), X, labels)
    finder = FastSearch(scoring, all_groups(scoring), 0)
    kept = []

    def choose(weights, metric, t):
        choice = finder.best(weights, metric, t)
        arrays, _ = finder.memory()
        kept.append((arrays, {name: array.copy() for name, array in arrays.items()}))
        return choice.group

    rounds(scoring, choose, 3)
    for arrays, copies in kept:
        for name, array in arrays.items():
            np.testing.assert_array_equal(array, copies[name])


def test_what_another_version_remembers_is_not_mistaken(loss, lazy):
    """Then all groups are looked at once more."""
    X, labels = planted()
    scoring = scoring_of(loss, array_store(X, 2), X, labels)
    finder, other = FastSearch(scoring, all_groups(scoring), 0), FastSearch(scoring, all_groups(scoring), 0)

    def choose(weights, metric, t):
        choice = finder.best(weights, metric, t)
        if t == 1:
            arrays, facts = finder.memory()
            del arrays["degrees"]
            other.recall(arrays, facts)
            assert other.best(weights, metric, t).details["sketched"] == 40
        return choice.group

    rounds(scoring, choose, 2)


def test_a_search_goes_on_in_another_memory_budget(loss, lazy, monkeypatch):
    """With fewer samples to go by, from where it was; with fewer pairs, by looking at all groups once more."""
    monkeypatch.setattr(traces, "PAIRS", 8)
    X, labels = planted()
    scoring = scoring_of(loss, array_store(X, 2), X, labels)
    finder = FastSearch(scoring, all_groups(scoring), 0)
    looked = []

    def choose(weights, metric, t):
        choice = finder.best(weights, metric, t)
        if t == 1:
            for most in (40, 16):
                share = (most + 0.5) * len(finder.groups) / scoring.objective.memory.total
                monkeypatch.setattr(search, "TRACES_SHARE", share)
                others.append(FastSearch(scoring, all_groups(scoring), 0))
                others[-1].recall(*finder.memory())
        if t == 2:
            looked.extend(other.best(weights, metric, t).details["sketched"] for other in others)
        return choice.group

    others = []
    rounds(scoring, choose, 3)
    np.testing.assert_array_equal(others[0]._witnesses.first, finder._witnesses.first)
    assert len(others[0]._witnesses.rows) < len(X) == len(finder._witnesses.rows)
    assert looked[0] < looked[1] == 40


def test_an_exact_search_remembers_nothing():
    X, labels = planted()
    scoring = scoring_of("triplet", array_store(X, 2), X, labels)
    finder = ExactSearch(scoring, all_groups(scoring))
    finder.recall(*finder.memory())
    assert finder.memory() == ({}, {})


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_the_number_of_threads_changes_no_bit(loss, n_jobs, lazy):
    X, labels = planted()
    made = []
    for n in (1, n_jobs):
        scoring = scoring_of(loss, array_store(X, 2), X, labels, n_jobs=n)
        made.append(choices(FastSearch(scoring, all_groups(scoring), 0), scoring, 4))
    assert made[0] == made[1]


def test_the_seed_decides_the_sketches(loss, lazy):
    X, labels = planted()
    scoring = scoring_of(loss, array_store(X, 2), X, labels)
    first, again, other = (
        choices(FastSearch(scoring, all_groups(scoring), seed), scoring, 2)[-1].details for seed in (0, 0, 1)
    )
    assert first == again
    assert first["sketch_missed"] != other["sketch_missed"]


def test_where_no_group_helps_the_best_score_is_zero(loss, strict_warnings):
    X, labels = np.zeros((36, 80), np.float32), planted()[1]
    scoring = scoring_of(loss, array_store(X, 2), X, labels)
    choice = FastSearch(scoring, all_groups(scoring), 0).best(
        scoring.objective.weights(cases.under(X, np.zeros((80, 80)))), BlockMetric(), 0
    )
    assert choice.score == 0
    assert choice.details["score_spread"] >= 0
