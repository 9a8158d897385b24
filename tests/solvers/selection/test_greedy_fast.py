"""Algorithm 1 by sketches and samples: nearly the exact one's f, the same bits each time, interrupted or not."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from samekind.compute.anchors import SamplingOptions
from samekind.compute.memory import Shares
from samekind.solvers.selection import SelectionOptions, SelectionState, select_groups
from samekind.solvers.selection.block_solvers import SampleOptions
from samekind.solvers.selection.search import LazyOptions
from samekind.store import ArrayStore, FeatureGroups
from samekind.threads import single_threaded_blas
from tests import cases

RIDGE = 0.05
PLANTED = (3, 17, 28)
N_GROUPS = 30
ROOM_FOR_A_FEW = Shares(present=40_000 / cases.PLENTY)  # bytes, of all
FEW_TILES = SamplingOptions(batches=4, smallest_block=1, subset_blocks=2)


@pytest.fixture(params=cases.BOTH_LOSSES)
def loss(request):
    return request.param


@pytest.fixture(autouse=True)
def one_thread_of_blas():
    """As the estimators have it."""
    with single_threaded_blas():
        yield


LAZY = {
    "lazy": LazyOptions(rank=4, n_leaders=10, n_random=5, n_exact=3, most_share=1.0, fewest=1)
}  # few groups at a time, and rough sketches
SAMPLES = SampleOptions(first=40, smallest=40)  # of a quarter of the rows
SMALL_SAMPLES = LAZY | {"samples": SAMPLES}
ALL_PAIRS = {"samples": SampleOptions()}
FEW_ANCHORS = {"shares": ROOM_FOR_A_FEW, "fewest_anchors": 40}  # but tiles as large as ever


def planted(n_per_class=20, seed=0, strength=1.5, noise=0.6):
    """Eight classes that differ in three bits, each in one of the planted groups of two; other groups are noise."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(8), n_per_class))
    X = noise * rng.normal(size=(len(labels), 2 * N_GROUPS))
    for bit, k in enumerate(PLANTED):
        X[:, 2 * k : 2 * k + 2] += strength * (labels >> bit & 1)[:, None]
    return X.astype(np.float32), labels


def mixed(n_classes=40, per_class=4, seed=0):
    """Every group says something, some much more than others."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(n_classes), per_class)
    strength = np.repeat(rng.uniform(0.1, 0.8, N_GROUPS), 2)
    X = rng.normal(size=(n_classes, 2 * N_GROUPS))[labels] * strength
    return (X + 0.5 * rng.normal(size=X.shape)).astype(np.float32), labels


def select(loss, X, labels, *, n_jobs=1, memory_budget=cases.PLENTY, shares=None, **options):
    """The result, the events, and what was kept, as files would give it back."""
    work = {"n_jobs": n_jobs, "memory_budget": memory_budget, "shares": shares, "sampling": FEW_TILES}
    case = cases.case_of(loss, X, labels, block=100, **work)
    store = ArrayStore(X, FeatureGroups.parse(2, X.shape[1]))
    events, states = [], []

    def keep(state):
        arrays = {name: array.copy() for name, array in state.arrays().items()}
        states.append((arrays, json.dumps(state.facts())))

    observe = options.pop("observe", lambda event: None)

    def listen(event):
        events.append(event)
        return observe(event)

    run = {name: options.pop(name) for name in ("candidates", "resume") if name in options}
    settings = {"ridge": RIDGE, "max_groups": 6, "search": "fast", "tol": 1e-2} | SMALL_SAMPLES | options
    result = select_groups(case.objective, store, SelectionOptions(**settings), observe=listen, keep=keep, **run)
    return result, events, states


def groups_of(events):
    return [event.details["group"] for event in events]


def assert_same_metric(one, other):
    assert list(one.metric.blocks) == list(other.metric.blocks)
    for k, block in one.metric.blocks.items():
        np.testing.assert_array_equal(other.metric.blocks[k], block)
    assert one.objective == other.objective
    assert (one.n_rounds, one.stopped_because) == (other.n_rounds, other.stopped_because)


# -- against the exact search -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [planted, mixed])
def test_f_comes_within_a_hundredth_of_the_exact_ones(loss, data):
    X, labels = data()
    fast, events, _ = select(loss, X, labels, tol=1e-3, **ALL_PAIRS)
    exact, exact_events, _ = select(loss, X, labels, tol=1e-3, search="exact")
    assert len(events) == len(exact_events) == 6
    assert fast.objective <= 1.01 * exact.objective
    assert any(event.details.get("sketched", N_GROUPS) < N_GROUPS for event in events)


def test_f_comes_near_to_the_exact_ones_on_samples_of_the_pairs(loss):
    X, labels = mixed()
    fast, events, _ = select(loss, X, labels)
    exact, _, _ = select(loss, X, labels, search="exact")
    assert any(event.details["n_anchors"] < len(X) for event in events)
    assert fast.objective <= 1.1 * exact.objective


@pytest.mark.parametrize("data", [planted, mixed])
def test_f_falls_in_every_round_and_is_that_of_the_metric(loss, data):
    X, labels = data()
    result, events, _ = select(loss, X, labels, max_groups=8)
    case = cases.case_of(loss, X.astype(np.float64), labels, block=64)
    A = np.zeros((X.shape[1],) * 2)
    for k, block in result.metric.blocks.items():
        A[2 * k : 2 * k + 2, 2 * k : 2 * k + 2] = block
    values = [case.objective.value(cases.under(case.Z, np.zeros_like(A))), *(event.objective for event in events)]
    assert all(after < before for before, after in pairwise(values))
    assert result.objective == values[-1]
    own = case.objective.value(cases.under(case.Z, A)) + RIDGE / 2 * np.linalg.norm(A) ** 2
    assert result.objective == pytest.approx(own, rel=1e-5)


@pytest.mark.parametrize("seed", [0, 1])
def test_planted_groups_are_found(loss, seed):
    result, _, _ = select(loss, *planted(seed=seed), max_groups=3)
    assert set(result.metric.blocks) == set(PLANTED)
    assert result.stopped_because == "max_groups=3 rounds done"


@pytest.mark.parametrize("norm", ["frobenius", "spectral"])
def test_both_norms_find_them(norm):
    result, _, _ = select("triplet", *planted(), max_groups=3, norm=norm)
    assert set(result.metric.blocks) == set(PLANTED)


def test_candidates_are_all_that_is_scored(loss):
    candidates = [PLANTED[0], 1, 29, 8, 9]
    result, events, _ = select(loss, *planted(), candidates=candidates, max_groups=4)
    assert groups_of(events)[0] == PLANTED[0]
    assert set(result.metric.blocks) <= set(candidates)
    assert all(event.details.get("sketched", 5) <= 5 for event in events)


# -- the same each time -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("anchors_only", [False, True])
def test_threads_and_calls_change_no_bit(loss, anchors_only):
    options = {"max_groups": 4} | (FEW_ANCHORS | {"fewest_anchors": 20} if anchors_only else {})
    first, events, _ = select(loss, *mixed(), **options)
    for n_jobs in (1, 2):
        other, other_events, _ = select(loss, *mixed(), n_jobs=n_jobs, **options)
        assert_same_metric(first, other)
        assert [event.record() for event in other_events] == [event.record() for event in events]


def test_another_seed_draws_other_samples(loss):
    made = {seed: select(loss, *mixed(), seed=seed, max_groups=4) for seed in (0, 1)}
    details = [[event.details["sketch_missed"] for event in events] for _, events, _ in made.values()]
    assert all(one != other for one, other in zip(*details, strict=True))
    assert made[0][0].objective == pytest.approx(made[1][0].objective, rel=0.1)
    assert made[0][0].objective != made[1][0].objective


# -- samples ----------------------------------------------------------------------------------------------------------


def test_blocks_are_solved_on_samples_of_the_pairs(loss):
    _, events, _ = select(loss, *planted(), max_groups=3)
    assert events[0].details["n_anchors"] <= 40
    for event in events:
        assert 5 <= event.details["n_anchors"] <= 160
        assert 0 <= event.details["estimated_error"] < event.objective


def test_samples_grow_when_they_promise_too_much(loss):
    _, events, states = select(loss, *mixed(), max_groups=5, samples=replace(SAMPLES, first=20, faithful=1e9))
    sizes = [restored(kept).solver["block_sample"] for kept in states[:-1]]
    anchors = [event.details["n_anchors"] for event in events]
    assert len(sizes) == len(events)
    assert sizes[-1] > 20
    assert all(before <= after for before, after in pairwise(sizes))
    assert all(before <= after for before, after in pairwise(anchors))
    assert anchors[-1] == 160  # no sample is worth it any more: all pairs
    assert events[-1].details["estimated_error"] == 0


def test_samples_that_promise_little_may_be_smaller(loss):
    samples = replace(SAMPLES, smallest=20, faithful=0.01, generous=0.01)
    _, events, states = select(loss, *planted(), max_groups=3, samples=samples)
    sizes = [restored(kept).solver["block_sample"] for kept in states]
    anchors = [event.details["n_anchors"] for event in events]
    assert min(anchors) < anchors[0]
    assert min(sizes) == 20


def test_faithful_samples_stay_as_they_are(loss):
    _, events, _ = select(loss, *planted(), max_groups=3, samples=replace(SAMPLES, faithful=0.01, generous=np.inf))
    assert len({event.details["n_anchors"] for event in events}) == 1


def test_a_small_problem_is_solved_on_all_pairs(loss):
    _, events, _ = select(loss, *planted(n_per_class=4), max_groups=2, **ALL_PAIRS)
    assert {event.details["n_anchors"] for event in events} == {32}
    assert {event.details["estimated_error"] for event in events} == {0.0}


@pytest.mark.parametrize("seed", range(3))
def test_a_sample_that_sees_no_gain_is_no_reason_to_end(loss, seed):
    """All that there is to learn concerns two classes of two samples; many a sample has none of them."""
    X, labels = np.zeros((160, 4), np.float32), np.repeat(np.arange(80), 2)
    X[:2, 0], X[2:4, 0] = 3, -3
    exact, _, _ = select(loss, X, labels, max_groups=1, ridge=1e-4, search="exact")
    fast, _, _ = select(loss, X, labels, max_groups=1, ridge=1e-4, seed=seed)
    assert fast.n_rounds == exact.n_rounds == 1


@pytest.mark.parametrize("seed", range(4))
def test_a_class_that_no_sample_may_hold_is_no_harm(seed):
    """Two samples of 162 are of the only other class."""
    X, _ = planted(seed=seed)
    rng = np.random.default_rng(seed)
    X = np.vstack([X, X[:2] + 3])
    labels = np.repeat([0, 1], [160, 2])
    order = rng.permutation(162)
    result, events, _ = select("pairwise-equal", X[order], labels[order], max_groups=2, seed=seed)
    assert result.n_rounds == len(events) > 0


# -- beyond the memory budget -----------------------------------------------------------------------------------------


def test_beyond_the_memory_budget_anchors_stand_for_all_rows(loss):
    X, labels = planted()
    result, events, _ = select(
        loss, X, labels, max_groups=3, memory_budget=100_000, fewest_anchors=20, lazy=LazyOptions()
    )
    assert set(result.metric.blocks) == set(PLANTED)
    for event in events:
        assert 20 <= event.details["n_anchors"] < len(X)
        assert 0 < event.details["estimated_error"] < event.objective
    assert len({event.details["n_anchors"] for event in events}) == 1


def test_two_standard_errors_hold_f_over_all_rows(loss):
    covered, lower = [], []
    for seed in range(8):
        X, labels = mixed(n_classes=150, seed=seed)
        result, events, _ = select(loss, X, labels, max_groups=6, seed=seed, ridge=1e-3, **FEW_ANCHORS)
        case = cases.case_of(loss, X.astype(np.float64), labels, block=200)
        A = np.zeros((X.shape[1],) * 2)
        for k, block in result.metric.blocks.items():
            A[2 * k : 2 * k + 2, 2 * k : 2 * k + 2] = block
        own = case.objective.value(cases.under(case.Z, A)) + 1e-3 / 2 * np.linalg.norm(A) ** 2
        error = events[-1].details["estimated_error"]
        assert result.objective == events[-1].objective
        covered.append(abs(result.objective - own) <= 2 * error)
        lower.append((own - events[-1].details["objective_on_anchors"]) / own)
    assert sum(covered) >= 7
    assert np.mean(lower) > 0.02  # those learned from see too low an f


def test_f_over_the_anchors_never_rises(loss):
    _, events, _ = select(loss, *mixed(n_classes=60), **FEW_ANCHORS)
    assert len(events) == 6
    values = [event.details["objective_on_anchors"] for event in events]
    assert all(after < before for before, after in pairwise(values))


def test_the_exact_search_needs_no_anchors(loss):
    _, events, _ = select(loss, *planted(n_per_class=6), max_groups=2, memory_budget=5000, search="exact")
    assert all("n_anchors" not in event.details for event in events)


# -- interrupted ------------------------------------------------------------------------------------------------------


def restored(kept):
    arrays, facts = kept
    return SelectionState.restored(arrays, json.loads(facts))


@pytest.mark.parametrize("way", ["exact", "fast", "fast on samples", "fast on anchors"])
def test_from_any_round_it_ends_with_the_same_bits(loss, way):
    rows = 40 if way == "fast on samples" else 10**6
    options = {"search": way.split()[0], "max_groups": 4, "samples": SampleOptions(first=rows, faithful=0.9)}
    if way == "fast on anchors":
        options |= FEW_ANCHORS
    data = mixed()
    result, events, states = select(loss, *data, **options)
    assert len(states) == 5  # one after each round, and one at the end
    for at, kept in enumerate(states):
        again, later, kept_later = select(loss, *data, resume=restored(kept), **options)
        assert_same_metric(result, again)
        assert [event.record() for event in later] == [event.record() for event in events[at + 1 :]]
        assert [facts for _, facts in kept_later] == [facts for _, facts in states[at + 1 :]]


def test_a_state_goes_through_arrays_and_json(loss):
    _, _, states = select(loss, *mixed(), max_groups=3)
    arrays, facts = states[-1]
    state = restored((arrays, facts))
    assert json.dumps(state.facts()) == facts
    assert state.arrays().keys() == arrays.keys()
    for name, array in state.arrays().items():
        np.testing.assert_array_equal(array, arrays[name])
        assert array.dtype == arrays[name].dtype
    assert len(state.steps) == 3
    assert state.stopped_because == "max_groups=3 rounds done"


def test_a_stop_by_the_observer_is_no_end(loss):
    whole, events, _ = select(loss, *mixed(), max_groups=5)
    part, _, states = select(loss, *mixed(), max_groups=5, observe=lambda event: event.iteration == 2)
    assert part.stopped_because == "stopped by the callback after 2 rounds"
    again, later, _ = select(loss, *mixed(), max_groups=5, resume=restored(states[-1]))
    assert_same_metric(whole, again)
    assert [event.iteration for event in later] == [3, 4, 5]
    assert [event.objective for event in later] == [event.objective for event in events[2:]]


@pytest.mark.parametrize("way", ["exact", "fast"])
def test_what_ended_is_not_begun_again(loss, way):
    result, _, states = select(loss, *mixed(), max_groups=3, search=way)
    again, events, kept = select(loss, *mixed(), max_groups=3, search=way, resume=restored(states[-1]))
    assert_same_metric(result, again)
    assert events == kept == []


@pytest.mark.parametrize("way", ["exact", "fast"])
def test_what_ended_before_the_first_round_is_not_begun_again(way):
    X, labels = np.zeros((40, 4), np.float32), np.repeat([0, 1], 20)
    result, _, states = select("triplet", X, labels, search=way)
    assert (result.n_rounds, len(states)) == (0, 1)
    again, events, _ = select("triplet", X, labels, search=way, resume=restored(states[-1]))
    assert_same_metric(result, again)
    assert events == []
