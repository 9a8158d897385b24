"""Step 2 on growing samples: the optimum of all rows, the same bits each time, and after any interruption."""

import json
from functools import lru_cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samekind.compute.anchors import SamplingOptions
from samekind.solvers.joint.problem import JointProblem
from samekind.solvers.joint.stages import sample_sizes
from samekind.solvers.joint.state import JointState
from samekind.threads import single_threaded_blas
from tests import cases
from tests.cases import solve_joint

SIZES = (4,) * 40  # N = 160
WIDTH = 8
RIDGE = 0.05
TOL = 2e-3
FEW_BATCHES = SamplingOptions(batches=5)
STAGES = {"convex": [160], "factored": [20, 40, 160]}  # anchors; in the end all rows
SAMPLED = {"convex": 60, "factored": "grow"}  # anchors with which each solver is on a sample at first
SEVERAL_STAGES = {"first_anchors": 20, "growth": 2}


@pytest.fixture(autouse=True)
def one_thread():
    """Of BLAS, as the estimators have it."""
    with single_threaded_blas():
        yield


@lru_cache
def case(loss, n_jobs=1):
    return cases.case(loss, SIZES, WIDTH, block=160, n_jobs=n_jobs, sampling=FEW_BATCHES)


def problem_of(loss, trace_bound=np.inf, n_jobs=1):
    made = case(loss, n_jobs)
    return JointProblem(made.objective, made.Z, RIDGE, trace_bound)


def solve(loss, solver, *, trace_bound=np.inf, n_jobs=1, **options):
    """The result, the events, and the states that were kept, as files would give them back."""
    events, states = [], []
    observe = options.pop("observe", lambda event: None)

    def listen(event):
        events.append(event)
        return observe(event)

    def keep(state):
        arrays = {name: array.copy() for name, array in state.arrays().items()}
        states.append((arrays, json.dumps(state.facts()), len(events)))

    options = {"tol": TOL, "anchors": "grow"} | SEVERAL_STAGES | options
    problem = problem_of(loss, trace_bound, n_jobs)
    result = solve_joint(problem, solver=solver, observe=listen, keep=keep, **options)
    return result, events, states


def anchors_of(events):
    return [event.details["n_anchors"] for event in events]


# -- stages -----------------------------------------------------------------------------------------------------------


@given(st.integers(1, 10**6), st.none() | st.integers(1, 10**6))
def test_stages_grow_from_few_anchors_to_all_rows_or_to_the_most_allowed(n, most):
    *samples, last = sample_sizes(n, 20, 2, most)
    assert last == (None if most is None or 2 * most >= n else most)
    end = n / 2 if last is None else last
    assert all(2 * size <= end for size in samples)
    assert all(before < after for before, after in pairwise(samples))
    assert samples[:1] == [size for size in [20] if 2 * size <= end]


def test_few_rows_are_not_sampled():
    assert sample_sizes(79, 20, 2) == [None]
    assert sample_sizes(80, 20, 2) == [20, None]
    assert sample_sizes(240, 20, 2) == [20, 40, None]
    assert sample_sizes(240, 20, 2, 60) == [20, 60]
    assert sample_sizes(240, 20, 2, 7) == [7]
    assert sample_sizes(240, 20, 2, 120) == [20, 40, None]  # as dear as all rows


# -- the optimum ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trace_bound", [np.inf, 1.5], ids=["free", "bounded"])
@pytest.mark.parametrize(("solver", "n_components"), [("convex", None), ("factored", None), ("factored", 3)])
def test_growing_samples_reach_the_optimum_of_all_rows(loss, solver, n_components, trace_bound):
    options = {"n_components": n_components, "trace_bound": trace_bound}
    whole, _, _ = solve(loss, solver, anchors="all", **options)
    grown, events, _ = solve(loss, solver, **options)
    assert grown.objective <= whole.objective * (1 + TOL)
    assert grown.objective_error == 0
    assert grown.converged
    assert grown.n_anchors == 160
    assert sorted(set(anchors_of(events))) == STAGES[solver]
    assert np.vdot(grown.L, grown.L) <= trace_bound * (1 + 1e-9)
    problem = problem_of(loss, trace_bound)
    assert grown.objective == pytest.approx(problem.value(grown.L @ grown.L.T), rel=1e-9)


def test_iterations_report_their_anchors_and_the_noise_of_samples(loss, solver):
    result, events, _ = solve(loss, solver, anchors=SAMPLED[solver])
    anchors = anchors_of(events)
    assert anchors == sorted(anchors)
    assert [event.iteration for event in events] == list(range(1, len(events) + 1))
    assert result.n_iter == len(events)
    on_samples = [event for event in events if event.details["n_anchors"] < 160]
    errors = [event.details["estimated_error"] for event in on_samples if "estimated_error" in event.details]
    assert errors
    assert all(0 < error < 1 for error in errors)
    assert all("estimated_error" not in event.details for event in events if event.details["n_anchors"] == 160)


def test_all_rows_are_one_stage(loss, solver):
    result, events, _ = solve(loss, solver, anchors="all")
    assert set(anchors_of(events)) == {160}
    assert (result.n_anchors, result.objective_error) == (160, 0)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_number_of_anchors_is_where_it_ends_with_an_error_that_holds(loss, solver, seed):
    result, events, _ = solve(loss, solver, anchors=60, seed=seed)
    exact = problem_of(loss).value(result.L @ result.L.T)
    assert result.n_anchors == max(anchors_of(events)) == 60
    assert set(anchors_of(events)) == ({60} if solver == "convex" else {20, 60})
    assert 0 < result.objective_error < 0.5 * exact
    assert abs(result.objective - exact) <= 4 * result.objective_error
    assert abs(result.objective - exact) > 0


def overfitting(loss):
    """Features that mean nothing beside few that do: a small sample tells one from the other badly."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(80), 4)
    X = rng.normal(size=(320, 40))
    X[:, :4] += 3 * rng.normal(size=(80, 4))[labels]
    made = cases.case_of(loss, X, labels, block=160, sampling=FEW_BATCHES)
    return JointProblem(made.objective, made.Z, 1e-3)


def test_f_is_estimated_by_anchors_that_were_not_learned_from(loss, solver, monkeypatch):
    """Those learned from would see a lower one."""
    learned_from, judging = [], []
    for name, seen in [
        ("value_and_gradient", learned_from),
        ("factored_value_and_gradient", learned_from),
        ("batch_values", judging),
        ("factored_batch_values", judging),
    ]:
        method = getattr(JointProblem, name)

        def noted(self, point, method=method, seen=seen):
            seen.append((self.objective.n_anchors, set(self.objective.anchors)))
            return method(self, point)

        monkeypatch.setattr(JointProblem, name, noted)
    solve(loss, solver, anchors=60)
    of_stage = dict(learned_from)
    assert {len(anchors) for _, anchors in judging} == ({60} if solver == "convex" else {20, 60})
    for n_anchors, anchors in judging:
        assert not anchors & of_stage[n_anchors]


def test_a_sample_that_misleads_is_left_where_others_still_gained(loss):
    problem = overfitting(loss)
    events, starts = [], {}  # of each stage
    keep = lambda state: starts.setdefault(state.stage, state.start)  # noqa: E731
    options = {"solver": "factored", "n_components": 8, "anchors": "grow", "tol": TOL} | SEVERAL_STAGES
    solve_joint(problem, keep=keep, observe=events.append, **options)
    start = problem.factored_value(starts[0])
    lowest = min(event.objective for event in events if event.details["n_anchors"] == 20)
    assert lowest < 0.8 * start  # the sample has it that f falls much
    assert problem.factored_value(starts[1]) <= 1.02 * start  # but no more than it really does is believed


def test_so_many_anchors_that_all_rows_are_no_dearer_are_all_rows(loss, solver):
    result, _, _ = solve(loss, solver, anchors=100, max_iter=30)
    assert (result.n_anchors, result.objective_error) == (160, 0)


def test_few_iterations_end_in_the_middle(loss, solver):
    result, events, _ = solve(loss, solver, max_iter=2, anchors=SAMPLED[solver])
    assert result.n_iter == len(events) == 2
    assert not result.converged
    assert result.n_anchors == (60 if solver == "convex" else 20)
    assert result.objective_error > 0


def test_an_observer_ends_any_stage(loss, solver):
    for anchors in STAGES[solver]:
        result, events, _ = solve(loss, solver, observe=lambda e, anchors=anchors: e.details["n_anchors"] == anchors)
        assert result.stopped
        assert anchors_of(events).count(anchors) == 1
        assert np.isfinite(result.objective)


def test_it_has_converged_only_where_the_gap_is_closed(loss):
    for trace_bound in (np.inf, 1.5):
        result, events, _ = solve(loss, "convex", trace_bound=trace_bound)
        assert result.converged
        assert events[-1].details["gap"] <= TOL * events[-1].objective
        assert result.certificate.relative_gap <= TOL


# -- the same each time -----------------------------------------------------------------------------------------------


def test_threads_and_calls_change_no_bit(loss, solver):
    first, events, _ = solve(loss, solver, max_iter=15)
    for n_jobs in (1, 2):
        other, other_events, _ = solve(loss, solver, max_iter=15, n_jobs=n_jobs)
        np.testing.assert_array_equal(other.L, first.L)
        assert other.objective == first.objective
        assert [event.record() for event in other_events] == [event.record() for event in events]


def test_the_seed_draws_the_anchors(loss, solver):
    drawn = [solve(loss, solver, seed=seed, max_iter=3, anchors=SAMPLED[solver]) for seed in (0, 1)]
    values = [events[-1].objective for _, events, _ in drawn]
    assert values[0] != values[1]
    ends = [solve(loss, solver, seed=seed)[0].objective for seed in (0, 1)]
    assert ends[0] == pytest.approx(ends[1], rel=TOL)


# -- interrupted ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("anchors", "trace_bound"), [("grow", np.inf), ("grow", 1.5), ("all", 1.5), (60, np.inf)])
def test_from_any_state_it_ends_with_the_same_bits(loss, solver, anchors, trace_bound):
    options = {"trace_bound": trace_bound, "anchors": anchors, "tol": 3e-3, "max_iter": 40, "keep_every": 2}
    whole, events, states = solve(loss, solver, **options)
    assert len(states) > {"grow": len(STAGES[solver]), "all": 1, 60: 2}[anchors]
    for arrays, facts, n_events in states:
        state = JointState.restored({name: array.copy() for name, array in arrays.items()}, json.loads(facts))
        again, later, _ = solve(loss, solver, resume=state, **options)
        assert [event.record() for event in later] == [event.record() for event in events[n_events:]]
        np.testing.assert_array_equal(again.L, whole.L)
        assert again.objective == whole.objective
        assert (again.n_iter, again.n_evaluations) == (whole.n_iter, whole.n_evaluations)
        assert (again.converged, again.n_anchors) == (whole.converged, whole.n_anchors)
        assert again.certificate == whole.certificate


def test_codes_of_few_components_go_on_too(loss):
    whole, _, states = solve(loss, "factored", n_components=3, keep_every=3)
    assert len(states) > 3
    for arrays, facts, _ in states:
        again, _, _ = solve(loss, "factored", n_components=3, resume=JointState.restored(arrays, json.loads(facts)))
        np.testing.assert_array_equal(again.L, whole.L)


def test_a_state_goes_through_arrays_and_json(loss, solver):
    _, _, states = solve(loss, solver, max_iter=12, keep_every=2)
    for arrays, facts, _ in states:
        state = JointState.restored(arrays, json.loads(facts))
        assert json.dumps(state.facts()) == facts
        assert state.arrays().keys() == arrays.keys()
        for name, array in state.arrays().items():
            np.testing.assert_array_equal(array, arrays[name])
