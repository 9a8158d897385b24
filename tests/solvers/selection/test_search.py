"""Line 4 of Algorithm 1 by sketches: the group that an exact search would take, or one nearly as good."""

import json
from dataclasses import replace

import numpy as np
import pytest

from samekind.compute.sources import PresentDistances
from samekind.kernels.laplacian import BlockForm
from samekind.kernels.spectral import leading_factor
from samekind.model.block_metric import BlockMetric
from samekind.solvers.optimise.projected import minimise
from samekind.solvers.selection.blocks import BlockProblem
from samekind.solvers.selection.scoring import Scoring
from samekind.solvers.selection.search import ExactSearch, LazyOptions, LazySearch
from samekind.solvers.selection.site import SelectionSite
from samekind.store import ArrayStore, FeatureGroups, RowsOf, WhitenedStore, Whitening, centred
from samekind.threads import single_threaded_blas
from tests import cases, stores

RIDGE = 0.1
PLANTED = (3, 17, 38)
DETAILS = {"sketched", "rescored", "sketch_rank", "sketch_missed", "sketch_error"}
EXHAUSTIVE = LazyOptions(rank=100, n_leaders=1000, n_random=0, n_exact=1, most_share=1.0, fewest=1)  # all groups
LAZY = LazyOptions(rank=4, n_leaders=12, n_random=8, n_exact=3, most_share=1.0, fewest=1, stale=1.0)  # rough


@pytest.fixture(params=cases.BOTH_LOSSES)
def loss(request):
    return request.param


@pytest.fixture(autouse=True)
def one_blas_thread():
    """As the estimators have it; for work so small more would only wait for each other."""
    with single_threaded_blas():
        yield


def planted(n_groups=40, sizes=(6, 4, 5, 1, 6, 5, 4, 5), seed=0, dtype=np.float32):
    """Eight classes that differ in three bits, each in one of the planted groups of two; other groups are noise."""
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
    return Scoring(SelectionSite(case.objective, store, cases.PLENTY), RIDGE, norm)


def rounds(scoring, choose, n_rounds):
    """Algorithm 1, `choose(weights, metric, n_rounds)` being its line 4."""
    objective = scoring.site.objective
    present, metric = PresentDistances(objective.plan, objective.dtype, cases.PLENTY), BlockMetric()
    for t in range(n_rounds):
        k = choose(objective.weights(present).kept(), metric, t)
        Z = centred(scoring.site.store.panel([k], scoring.site.rows))
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
    return list(range(len(scoring.site.store.group_sizes)))


# -- every group sketched, nothing missed ------------------------------------------------------------------------------


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
def test_with_every_group_sketched_it_chooses_as_the_exact_search(loss, kind, norm, on_disk):
    X, labels = planted()
    store = STORES[kind](on_disk)
    scoring = scoring_of(loss, store, X, labels, norm)
    groups = all_groups(scoring)
    fast, exact = LazySearch(scoring, groups, 0, EXHAUSTIVE), ExactSearch(scoring, groups)

    def both(weights, metric, t):
        one, other = fast.best(weights, metric, t), exact.best(weights, metric, t)
        assert one.group == other.group
        assert one.score == pytest.approx(other.score, rel=1e-4)  # float32, in panels of other groups
        assert one.details["sketched"] == len(groups)
        if one.details["sketch_missed"] < 1e-3:  # after the first round there are directions for equal weights only
            assert one.details["sketch_error"] < 1e-4
        return one.group

    metric = rounds(scoring, both, 7)
    assert len(metric.blocks) > 2


@pytest.mark.parametrize("sample", ["sampled", "sampled_pairs"])
def test_with_every_group_of_a_sample_sketched_it_chooses_as_an_exact_search_of_the_sample(loss, sample):
    X, labels = planted()
    scoring = scoring_of(loss, array_store(X, 2), X, labels)
    objective = getattr(scoring.site.objective, sample)(20, np.random.RandomState(0))
    scoring = Scoring(SelectionSite(objective, scoring.site.store, cases.PLENTY), RIDGE, "frobenius")
    groups = all_groups(scoring)
    weights = scoring.site.objective.weights(cases.under(X[scoring.site.rows], np.zeros((80, 80)))).kept()
    fast, exact = (
        finder.best(weights, BlockMetric(), 0)
        for finder in (LazySearch(scoring, groups, 0, EXHAUSTIVE), ExactSearch(scoring, groups))
    )
    assert fast.group == exact.group
    assert fast.score == pytest.approx(exact.score, rel=1e-5)


def test_only_the_groups_named_are_chosen(loss):
    X, labels = planted()
    scoring = scoring_of(loss, array_store(X, 2), X, labels)
    named = [5, PLANTED[1], 9, 30]
    made = choices(LazySearch(scoring, named, 0), scoring, 3)
    assert made[0].group == PLANTED[1]
    assert {choice.group for choice in made} <= set(named)


def test_sketched_scores_are_those_of_their_group_in_any_order(loss):
    X, labels = planted()
    scoring = scoring_of(loss, array_store(X, 2), X, labels)
    finder = LazySearch(scoring, all_groups(scoring), 0, EXHAUSTIVE)
    weights = scoring.site.objective.weights(cases.under(X[scoring.site.rows], 0.02 * np.eye(80, dtype=np.float32)))
    _, laplacian = finder._sketch(weights, 0)
    order = np.random.default_rng(0).permutation(40).tolist()
    metric = BlockMetric()
    metric.add(7, cases.random_psd(2), 1.0)
    scores = scoring.sketched(laplacian, order, metric)
    assert cases.relative_error(scores, scoring.exact(weights, order, metric)) < 1e-4


def test_the_groups_of_no_one_have_no_scores():
    X, labels = planted()
    scoring = scoring_of("triplet", array_store(X, 2), X, labels)
    weights = scoring.site.objective.weights(cases.under(X[scoring.site.rows], np.zeros((80, 80))))
    _, laplacian = LazySearch(scoring, all_groups(scoring), 0, EXHAUSTIVE)._sketch(weights, 0)
    assert scoring.sketched(laplacian, [], BlockMetric()).shape == (0,)


@pytest.mark.parametrize("offset", [0.0, 10.0])
def test_whitening_of_unlike_directions_far_from_zero_leaves_the_scores_right(offset):
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
    Z = X[scoring.site.rows] - X.mean(axis=0)
    weights = scoring.site.objective.weights(cases.under(Z, 0.05 * np.eye(60, dtype=np.float32)))
    _, laplacian = LazySearch(scoring, all_groups(scoring), 0, EXHAUSTIVE)._sketch(weights, 0)
    sketched = scoring.sketched(laplacian, all_groups(scoring), BlockMetric())
    np.testing.assert_allclose(sketched, scoring.exact(weights, all_groups(scoring), BlockMetric()), rtol=0.02)


# -- lazily -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
def test_planted_groups_are_found_without_scoring_all_others(loss, seed):
    X, labels = planted(sizes=(9,) * 8, seed=seed)
    scoring = scoring_of(loss, array_store(X, 2), X, labels)
    made = choices(LazySearch(scoring, all_groups(scoring), 0, LAZY), scoring, 3)
    assert {choice.group for choice in made} == set(PLANTED)
    assert made[0].details["sketched"] == 40
    assert min(choice.details["sketched"] for choice in made) < 30


def test_little_is_lost_in_any_round(loss):
    X, labels = mixed()
    scoring = scoring_of(loss, array_store(X, 3), X, labels)
    groups = all_groups(scoring)
    fast = LazySearch(
        scoring, groups, 0, LazyOptions(rank=16, n_leaders=30, n_random=15, n_exact=4, most_share=1, fewest=1, stale=1)
    )
    lost, sketched = [], []

    def choose(weights, metric, t):
        choice, scores = fast.best(weights, metric, t), scoring.exact(weights, groups, metric)
        assert choice.score == pytest.approx(scores[choice.group], rel=1e-6)
        lost.append(1 - choice.score / scores.max())
        sketched.append(choice.details["sketched"])
        return choice.group

    metric = rounds(scoring, choose, 16)
    assert len(metric.blocks) > 8
    assert max(lost) <= 0.02
    assert np.mean(sketched[1:]) < 50


def test_a_group_whose_score_is_out_of_date_is_drawn_again(loss):
    """A group that was low when it was scored last is only oversketched until it is drawn at random."""
    X, labels = planted()
    scoring = scoring_of(loss, array_store(X, 2), X, labels)
    fast = LazySearch(scoring, all_groups(scoring), 0, LAZY)

    def choose(weights, metric, t):
        choice = fast.best(weights, metric, t)
        if t == 0:
            fast.scores[PLANTED[2]] = 0
        return choice.group

    assert PLANTED[2] in rounds(scoring, choose, 8).blocks


def test_without_random_groups_it_stays_oversketched(loss):
    X, labels = planted()
    scoring = scoring_of(loss, array_store(X, 2), X, labels)
    fast = LazySearch(scoring, all_groups(scoring), 0, replace(LAZY, n_random=0))

    def choose(weights, metric, t):
        choice = fast.best(weights, metric, t)
        if t == 0:
            fast.scores[PLANTED[2]] = 0
        return choice.group

    assert PLANTED[2] not in rounds(scoring, choose, 8).blocks


def test_leaders_by_their_last_scores_and_random_groups_are_candidates():
    X, labels = planted()
    scoring = scoring_of("triplet", array_store(X, 2), X, labels)
    finder = LazySearch(scoring, all_groups(scoring), 0, LAZY)
    assert finder._candidates(1.0, 0).tolist() == list(range(40))
    finder.scores = np.arange(40.0)
    first, again, other = (finder._candidates(1.0, n_rounds).tolist() for n_rounds in (3, 3, 4))
    assert set(range(28, 40)) < set(first)
    assert len(set(first)) == 20
    assert first == sorted(first)
    assert first == again
    assert first != other
    assert set(range(28, 40)) < set(other)


def test_all_groups_are_sketched_again_once_the_loss_has_fallen_by_a_share(loss):
    X, labels = planted()
    scoring = scoring_of(loss, array_store(X, 2), X, labels)
    finder = LazySearch(scoring, all_groups(scoring), 0, replace(LAZY, stale=0.3))
    losses, sketched = [], []

    def choose(weights, metric, t):
        losses.append(weights.into(BlockForm(X[scoring.site.rows, :2], [slice(0, 2)]))[0])
        choice = finder.best(weights, metric, t)
        sketched.append(choice.details["sketched"])
        return choice.group

    rounds(scoring, choose, 8)
    expected, last = [], np.inf
    for value in losses:
        expected.append(40 if value < 0.7 * last else 20)
        last = value if expected[-1] == 40 else last
    assert sketched == expected
    assert 20 in sketched
    assert sketched.count(40) > 1


def test_the_best_of_those_sketched_are_scored_exactly_and_the_best_of_these_is_chosen():
    X, labels = mixed()
    scoring = scoring_of("pairwise", array_store(X, 3), X, labels)
    weights = scoring.site.objective.weights(
        cases.under(X[scoring.site.rows], 0.01 * np.eye(180, dtype=np.float32))
    ).kept()
    for n_exact in (1, 4):
        finder = LazySearch(scoring, all_groups(scoring), 0, replace(LAZY, n_exact=n_exact))
        choice = finder.best(weights, BlockMetric(), 0)
        top = np.argsort(-finder.scores, kind="stable")[:n_exact]
        exact = scoring.exact(weights, top.tolist(), BlockMetric())
        assert choice.details["rescored"] == n_exact
        assert choice.group == top[np.argmax(exact)]
        assert choice.score == exact.max()


# -- what it reports and remembers -------------------------------------------------------------------------------------


def test_each_round_reports_what_was_done(loss):
    X, labels = planted()
    scoring = scoring_of(loss, array_store(X, 2), X, labels)
    for choice in choices(LazySearch(scoring, all_groups(scoring), 0, LAZY), scoring, 4):
        details = choice.details
        assert details.keys() == DETAILS
        assert json.loads(json.dumps(details)) == details
        assert 1 <= details["rescored"] <= details["sketched"] <= 40
        assert 1 <= details["sketch_rank"] <= len(X)
        assert 0 < details["sketch_missed"] < 1.5
        assert 0 <= details["sketch_error"] < np.inf


def test_a_search_goes_on_as_it_would_have_from_what_it_remembers(loss):
    X, labels = planted()
    scoring = scoring_of(loss, array_store(X, 2), X, labels)
    options = replace(LAZY, stale=0.3)
    first = LazySearch(scoring, all_groups(scoring), 5, options)
    others = []

    def choose(weights, metric, t):
        choice = first.best(weights, metric, t)
        for other in others:
            again = other.best(weights, metric, t)
            assert again == choice
        follower = LazySearch(scoring, all_groups(scoring), 5, options)
        follower.recall({name: array.copy() for name, array in first.memory().items()})
        others.append(follower)
        return choice.group

    rounds(scoring, choose, 5)
    assert len(others) == 5


def test_what_was_remembered_is_not_changed_by_later_rounds(loss):
    X, labels = planted()
    scoring = scoring_of(loss, array_store(X, 2), X, labels)
    finder = LazySearch(scoring, all_groups(scoring), 0, LAZY)
    kept = []

    def choose(weights, metric, t):
        choice = finder.best(weights, metric, t)
        arrays = finder.memory()
        kept.append((arrays, {name: array.copy() for name, array in arrays.items()}))
        return choice.group

    rounds(scoring, choose, 3)
    for arrays, copies in kept:
        for name, array in arrays.items():
            np.testing.assert_array_equal(array, copies[name])


def test_what_another_version_remembers_is_not_mistaken(loss):
    """Then all groups are sketched once more."""
    X, labels = planted()
    scoring = scoring_of(loss, array_store(X, 2), X, labels)
    finder, other = (LazySearch(scoring, all_groups(scoring), 0, LAZY) for _ in range(2))

    def choose(weights, metric, t):
        choice = finder.best(weights, metric, t)
        if t == 1:
            arrays = finder.memory()
            del arrays["loss"]
            other.recall(arrays)
            assert other.best(weights, metric, t).details["sketched"] == 40
        return choice.group

    rounds(scoring, choose, 2)


def test_an_exact_search_remembers_nothing():
    X, labels = planted()
    scoring = scoring_of("triplet", array_store(X, 2), X, labels)
    finder = ExactSearch(scoring, all_groups(scoring))
    finder.recall(finder.memory())
    assert finder.memory() == {}


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_the_number_of_threads_changes_no_bit(loss, n_jobs):
    X, labels = planted()
    made = []
    for n in (1, n_jobs):
        scoring = scoring_of(loss, array_store(X, 2), X, labels, n_jobs=n)
        made.append(choices(LazySearch(scoring, all_groups(scoring), 0, LAZY), scoring, 4))
    assert made[0] == made[1]


def test_the_seed_decides_the_sketches(loss):
    X, labels = planted()
    scoring = scoring_of(loss, array_store(X, 2), X, labels)
    first, again, other = (
        choices(LazySearch(scoring, all_groups(scoring), seed, LAZY), scoring, 2)[-1].details for seed in (0, 0, 1)
    )
    assert first == again
    assert first["sketch_missed"] != other["sketch_missed"]


def test_where_no_group_helps_the_best_score_is_zero(loss, strict_warnings):
    X, labels = np.zeros((36, 80), np.float32), planted()[1]
    scoring = scoring_of(loss, array_store(X, 2), X, labels)
    choice = LazySearch(scoring, all_groups(scoring), 0, LAZY).best(
        scoring.site.objective.weights(cases.under(X, np.zeros((80, 80)))), BlockMetric(), 0
    )
    assert choice.score == 0
    assert choice.details["sketch_error"] == 0
