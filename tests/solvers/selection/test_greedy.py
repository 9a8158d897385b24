"""Algorithm 1: scores, rounds and bookkeeping against literal loops."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from samekind.compute.sources import FactoredDistances, PresentDistances
from samekind.model.block_metric import BlockMetric
from samekind.solvers.joint.problem import JointProblem
from samekind.solvers.optimise.projected import minimise
from samekind.solvers.selection import SelectionOptions, select_groups
from samekind.solvers.selection.blocks import BlockProblem, curvature_by_scale
from samekind.solvers.selection.scoring import Scoring
from samekind.solvers.selection.site import SelectionSite
from samekind.store import ArrayStore, FeatureGroups
from tests import cases, oracle
from tests.cases import solve_joint

RIDGE = 0.1
GROUPS = {"a": [5, 0], "b": [3], "c": [1, 2, 4]}  # unequal sizes, in no order
STEPS = [(2, 1.0, 2), (0, 0.7, 1), (2, 1.2, 1)]  # (group, alpha, rank): group 2 comes again


@dataclass
class State:
    """A block metric after some steps, kept by the package and, as one matrix, by the oracle."""

    case: Any
    store: ArrayStore
    metric: BlockMetric
    present: PresentDistances
    A: Any

    def columns(self, k):
        return self.store.groups.columns[k]

    def block_problem(self, k, ridge=RIDGE):
        Z = self.case.Z[:, self.columns(k)]
        return BlockProblem(
            self.case.objective, Z, ridge, self.present, self.metric.norm(), self.metric.block(k, Z.shape[1])
        )


def state_after(loss, n_steps, *, room=cases.PLENTY, dtype=np.float64, spread=1.0, widest_panel=1024):
    case = cases.case(loss, dtype=dtype, spread=spread)
    # Rows of the store are samples in the order given, those of Z in class order.
    X = np.empty_like(case.Z)
    X[case.objective.relation.order] = case.Z
    store = ArrayStore(X, FeatureGroups.parse(GROUPS, 6), widest_panel)
    state = State(case, store, BlockMetric(), PresentDistances(case.objective.plan, dtype, room), np.zeros((6, 6)))
    for seed, (k, alpha, rank) in enumerate(STEPS[:n_steps]):
        columns = state.columns(k)
        L = 0.7 * np.random.default_rng(seed).normal(size=(len(columns), rank))
        state.present.update(alpha, (case.Z[:, columns] @ L).astype(dtype), case.objective.executor)
        state.metric.add(k, L @ L.T, alpha)
        state.A = alpha * state.A + oracle.embedded(L @ L.T, columns, 6)
    return state


def group_scores(state, objective, groups, norm="frobenius"):
    scoring = Scoring(SelectionSite(objective, state.store, cases.PLENTY), RIDGE, norm)
    return scoring.exact(scoring.site.objective.weights(state.present).kept(), groups, state.metric)


def whole_matrix(metric, groups, n_features):
    A = np.zeros((n_features, n_features))
    for k, block in metric.blocks.items():
        A += oracle.embedded(block, groups.columns[k], n_features)
    return A


# -- the metric and its distances -------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_steps", [0, 1, 2, 3])
def test_a_block_metric_follows_alpha_times_itself_plus_a_block(n_steps):
    state = state_after("triplet", n_steps)
    np.testing.assert_allclose(whole_matrix(state.metric, state.store.groups, 6), state.A, atol=1e-14)
    assert state.metric.norm() == pytest.approx(np.linalg.norm(state.A), abs=1e-14)
    assert state.metric.rank() == np.linalg.matrix_rank(state.A)
    assert list(state.metric.blocks) == [[], [2], [2, 0], [2, 0]][n_steps]


def test_factors_give_the_blocks_back_and_leave_empty_ones_out():
    metric = BlockMetric()
    A = cases.random_psd(3, rank=2)
    metric.add(4, A, 1.0)
    metric.add(1, np.zeros((2, 2)), 1.0)
    assert list(metric.blocks) == [4, 1]
    assert list(metric.factors()) == [4]
    np.testing.assert_allclose(metric.factors()[4] @ metric.factors()[4].T, A, atol=1e-13)


@pytest.mark.parametrize("tiles", [0, 4, 100], ids=["keeps no tiles", "some", "all"])
def test_the_joint_problem_in_orthogonal_coordinates_has_the_distances_of_step_one(loss, tiles):
    state = state_after(loss, 3, room=tiles * 25 * 8)
    values, U = np.linalg.eigh(state.A)
    U, Lambda = U[:, values > 1e-9], np.diag(values[values > 1e-9])
    problem = JointProblem(state.case.objective, state.case.Z @ U, RIDGE)
    plan = state.case.objective.plan
    D = cases.dense(state.present, plan)
    in_coordinates = cases.dense(FactoredDistances.quadratic(problem.Z, problem.Z @ Lambda), plan)
    step_one = state.case.objective.value(state.present) + RIDGE / 2 * np.linalg.norm(state.A) ** 2
    assert cases.relative_error(D, oracle.distances(state.case.Z, state.A)) < 1e-12
    assert cases.relative_error(in_coordinates, D) < 1e-12
    assert problem.value(Lambda) == pytest.approx(step_one, rel=1e-12)


# -- line 5: the block problem ----------------------------------------------------------------------------------------

# Before the first choice there is no D0; groups 1, 0 and 2 are then new, chosen before, and chosen twice.
SITUATIONS = [(0, 1), (1, 1), (3, 1), (2, 0), (3, 2), (1, 2)]
situations = pytest.mark.parametrize(
    ("n_steps", "k"), SITUATIONS, ids=[f"after {n} steps, group {k}" for n, k in SITUATIONS]
)


def point(problem, alpha=0.8, seed=0, shift=0.0):
    n = len(problem.present_block)
    return problem.pack(alpha, cases.random_psd(n, seed=seed, scale=0.4) + shift * np.eye(n))


@situations
@pytest.mark.parametrize("loss", cases.ALL_LOSSES)
def test_the_block_objective_equals_the_oracles(loss, n_steps, k):
    state = state_after(loss, n_steps)
    problem = state.block_problem(k)
    x = point(problem)
    alpha, A_k = problem.unpack(x)
    assert alpha == pytest.approx(0.8 if n_steps else 1.0)
    literal = oracle.round_objective(state.case.Z, state.A, alpha, A_k, state.columns(k), state.case.reference, RIDGE)
    assert problem.value(x) == problem.value_and_gradient(x)[0] == pytest.approx(literal, rel=1e-9)


@situations
@pytest.mark.parametrize("loss", cases.ALL_LOSSES)
@pytest.mark.parametrize("shift", [0.0, -0.2], ids=["psd", "slightly indefinite"])
def test_the_block_gradient_by_finite_differences(loss, n_steps, k, shift):
    problem = state_after(loss, n_steps).block_problem(k)
    n = len(problem.present_block)
    x = point(problem, shift=shift)
    _, gradient = problem.value_and_gradient(x)
    rng = np.random.default_rng(3)
    directions = [problem.pack(0.0, cases.random_symmetric(n, seed=8))]
    if n_steps:
        directions += [
            problem.pack(1.0, np.zeros((n, n))),
            problem.pack(rng.normal(), cases.random_symmetric(n, seed=9)),
        ]
    else:
        assert gradient[0] == 0
    for direction in directions:
        slope = cases.directional_difference(problem.value, x, direction)
        assert gradient @ direction == pytest.approx(slope, rel=1e-6)


@situations
def test_the_block_problem_is_as_strongly_convex_as_it_says(loss, n_steps, k):
    problem = state_after(loss, n_steps).block_problem(k)
    m = problem.strong_convexity
    x, y = point(problem, 0.5, seed=1), point(problem, 1.4, seed=2)
    (f, g), h = problem.value_and_gradient(x), problem.value(y)
    assert 0 <= m <= RIDGE
    assert h >= f + g @ (y - x) + m / 2 * np.linalg.norm(y - x) ** 2 - 1e-12


def test_the_ridge_term_is_no_more_convex_than_it_says():
    # Without a loss's help: the smallest curvature of ridge/2 ||alpha A + A_k||^2 over (s alpha, A_k).
    problem = state_after("triplet", 3).block_problem(2)
    s, B = problem.scale, problem.present_block
    worst = np.concatenate([[1.0], -B.ravel() / np.linalg.norm(B)])
    curvature = RIDGE * (1 - 2 * np.linalg.norm(B) / s + 1) / (worst @ worst)
    assert problem.strong_convexity == pytest.approx(curvature, rel=1e-12)
    assert 0 < problem.strong_convexity < RIDGE


def test_projection_keeps_alpha_and_the_block_in_their_sets():
    problem = state_after("triplet", 1).block_problem(0)
    A = np.array([[1.0, 2.0], [2.0, -3.0]])
    projected = problem.project(problem.pack(-0.4, A))
    alpha, block = problem.unpack(projected)
    assert alpha == 0
    np.testing.assert_allclose(block, oracle.project_psd(A), atol=1e-14)
    np.testing.assert_allclose(problem.project(projected), projected, atol=1e-14)


@situations
def test_no_feasible_point_is_below_the_solution_of_a_round(loss, n_steps, k):
    problem = state_after(loss, n_steps).block_problem(k)
    solution = minimise(problem, problem.start, tol=1e-9, max_iter=2000)
    rng = np.random.default_rng(0)
    assert solution.converged
    for _ in range(20):
        step = problem.pack(rng.normal(), cases.random_symmetric(len(problem.present_block), seed=rng.integers(99)))
        near = problem.project(solution.x + rng.choice([1e-3, 1e-1, 1.0]) * step)
        assert problem.value(near) >= solution.value * (1 - 1e-8)


def test_the_curvature_by_scale_is_that_of_f_in_alpha(loss):
    problem = state_after(loss, 2).block_problem(1, ridge=0.0)
    slopes = [problem.value_and_gradient(problem.pack(alpha, problem.present_block))[1][0] for alpha in (0.999, 1.001)]
    literal = (slopes[1] - slopes[0]) / 0.002 * problem.unit  # slopes are by `unit * alpha`
    measured = curvature_by_scale(problem.objective, problem.present)
    assert literal > 0
    assert measured == pytest.approx(literal, rel=0.1)


def test_a_block_beside_a_metric_that_tells_most_pairs_apart_takes_few_iterations():
    # Few pairs are undecided then: f curves far less along alpha than the mean distance suggests.
    X, y = load_digits(n_class=5, return_X_y=True)
    X = (X[:200] - X[:200].mean(axis=0)) / (X[:200].std(axis=0) + 1e-9)
    halves = np.arange(64).reshape(8, 2, 4).transpose(1, 0, 2).reshape(2, 32)
    objective = cases.case_of("pairwise-equal", X, y[:200], block=200).objective
    events = []
    store = ArrayStore(X, FeatureGroups.parse({"left": halves[0], "right": halves[1]}, 64))
    select_groups(objective, store, SelectionOptions(ridge=0.005, max_groups=3), observe=events.append)
    assert [event.details["converged"] for event in events] == [True] * 3
    assert max(event.details["n_iter"] for event in events) <= 15


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("loss", cases.ALL_LOSSES)
def test_distances_of_a_million_give_finite_block_gradients(loss, dtype, strict_warnings):
    problem = state_after(loss, 2, dtype=dtype, spread=1000.0).block_problem(2)
    value, gradient = problem.value_and_gradient(point(problem))
    assert cases.dense(problem.present, problem.objective.plan).max() > 1e6
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()
    assert np.abs(gradient).max() > 0


# -- line 4: the scores -----------------------------------------------------------------------------------------------


# float32: distances up to 30 known to 2e-6 and terms that cancel
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-9), (np.float32, 1e-4)])
@pytest.mark.parametrize("norm", ["frobenius", "spectral"])
@pytest.mark.parametrize("n_steps", [0, 1, 3])
@pytest.mark.parametrize("loss", cases.ALL_LOSSES)
def test_group_scores_equal_the_oracles(loss, n_steps, norm, dtype, rtol):
    state = state_after(loss, n_steps, dtype=dtype)
    literal = [
        oracle.group_score(state.case.Z, state.A, state.columns(k), state.case.reference, RIDGE, norm)
        for k in (0, 1, 2)
    ]
    scores = group_scores(state, state.case.objective, [0, 1, 2], norm)
    assert max(literal) > 0
    assert cases.relative_error(scores, literal) < rtol


@pytest.mark.parametrize("widest", [1, 3])
@pytest.mark.parametrize("tiles", [0, 4], ids=["keeps no tiles", "some"])
def test_scores_do_not_depend_on_panels_or_memory(loss, widest, tiles):
    everything = state_after(loss, 3)
    scarce = state_after(loss, 3, room=tiles * 25 * 8, widest_panel=widest)
    objective = everything.case.objective
    expected = group_scores(everything, objective, [2, 0, 1])
    small = scarce.case.with_plan(5, memory_budget=tiles * 25 * 8).objective
    scores = group_scores(scarce, small, [2, 0, 1])
    np.testing.assert_allclose(scores, expected, rtol=1e-11)


# -- the rounds -------------------------------------------------------------------------------------------------------

SIZES = (6, 4, 5, 1, 6, 5, 4, 5)
PLANTED = (3, 6, 8)
GROUP_SIZES = (2, 3, 1, 2, 2, 3, 3, 1, 2, 2, 2)


def planted(seed=0, dtype=np.float64):
    """Eight classes, distinguished by three bits, each bit in one of the planted groups; the other groups are noise."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(len(SIZES)), SIZES))
    edges = np.cumsum((0, *GROUP_SIZES))
    groups = [np.arange(a, b) for a, b in pairwise(edges)]
    X = rng.normal(size=(len(labels), edges[-1]))
    for bit, k in enumerate(PLANTED):
        X[:, groups[k]] = 0.5 * X[:, groups[k]] + 1.5 * (labels >> bit & 1)[:, None]
    return X.astype(dtype), labels, groups


def select(loss, X, labels, groups, *, block=16, n_jobs=1, memory_budget=cases.PLENTY, **options):
    case = cases.case_of(loss, X, labels, block=block, n_jobs=n_jobs, memory_budget=memory_budget)
    store = ArrayStore(X, FeatureGroups.parse(groups, X.shape[1]))
    events = []
    observe = options.pop("observe", lambda event: None)

    def listen(event):
        events.append(event)
        return observe(event)

    run = {name: options.pop(name) for name in ("candidates",) if name in options}
    settings = SelectionOptions(**{"ridge": RIDGE, "max_groups": 3, "tol": 1e-5} | options)
    result = select_groups(case.objective, store, settings, observe=listen, **run)
    return result, events, case


@pytest.mark.parametrize("norm", ["frobenius", "spectral"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_planted_groups_are_found(loss, norm, seed):
    result, events, _ = select(loss, *planted(seed), norm=norm)
    assert set(result.metric.blocks) == set(PLANTED)
    assert result.n_rounds == len(events) == 3
    assert result.stopped_because == "max_groups=3 rounds done"


def test_float32_finds_them_too(loss):
    result, _, _ = select(loss, *planted(dtype=np.float32), tol=1e-4)
    reference, _, _ = select(loss, *planted(), tol=1e-4)
    assert list(result.metric.blocks) == list(reference.metric.blocks)
    assert result.objective == pytest.approx(reference.objective, rel=2e-4)


def test_the_objective_falls_every_round_and_is_that_of_the_metric(loss):
    X, labels, groups = planted()
    result, events, case = select(loss, X, labels, groups, max_groups=5)
    values = [case.objective.value(cases.under(case.Z, np.zeros((X.shape[1],) * 2)))]
    values += [event.objective for event in events]
    A = whole_matrix(result.metric, FeatureGroups.parse(groups, X.shape[1]), X.shape[1])
    assert len(events) == 5
    assert all(after < before for before, after in pairwise(values))
    assert result.objective == values[-1]
    assert result.objective == pytest.approx(JointProblem(case.objective, case.Z, RIDGE).value(A), rel=1e-9)
    assert result.objective == pytest.approx(oracle.objective(case.Z, A, case.reference, RIDGE), rel=1e-9)


@pytest.mark.parametrize("norm", ["frobenius", "spectral"])
def test_every_round_takes_the_group_that_the_oracle_scores_highest(loss, norm):
    X, labels = cases.labelled_data()
    _, events, case = select(loss, X, labels, GROUPS, max_groups=4, norm=norm)
    groups = FeatureGroups.parse(GROUPS, 6)
    for t, event in enumerate(events):
        before, _, _ = select(loss, X, labels, GROUPS, max_groups=t, norm=norm)
        A = whole_matrix(before.metric, groups, 6)
        scores = [oracle.group_score(case.Z, A, cols, case.reference, RIDGE, norm) for cols in groups.columns]
        assert event.details["group"] == int(np.argmax(scores))
        # Scores late in a run are differences of forces in balance.
        assert event.details["score"] == pytest.approx(max(scores), rel=1e-7)


def test_the_two_norms_may_choose_differently():
    # One strong direction in group 0, three in group 1 that are each weaker: 1.5^2 is between 1.2^2 and sqrt(3) 1.2^2.
    labels = np.repeat(np.arange(8), 3)
    signs = np.array([[(-1) ** (bin(label & mask).count("1")) for mask in (1, 2, 4, 7)] for label in labels])
    X = signs * [1.5, 1.2, 1.2, 1.2]
    chosen = {
        norm: select("triplet", X, labels, [[0], [1, 2, 3]], max_groups=1, norm=norm)[1][0].details["group"]
        for norm in ("frobenius", "spectral")
    }
    assert chosen == {"frobenius": 1, "spectral": 0}


def test_one_round_with_one_group_is_the_joint_problem_of_its_columns(loss):
    X, labels, groups = planted()
    result, events, case = select(loss, X, labels, groups, candidates=[PLANTED[0]], max_groups=1, tol=1e-10)
    Z = case.Z[:, groups[PLANTED[0]]]
    joint = solve_joint(JointProblem(case.objective, Z, RIDGE), solver="convex", tol=1e-10, max_iter=3000)
    apart = np.linalg.norm(result.metric.blocks[PLANTED[0]] - joint.L @ joint.L.T)
    assert events[0].details["converged"]
    assert joint.certificate.optimal
    assert result.objective == pytest.approx(joint.objective, rel=1e-9)
    assert apart <= 2 * (2 * 1e-10 * joint.objective / RIDGE) ** 0.5


def test_the_order_of_groups_does_not_matter(loss):
    X, labels, groups = planted()
    order = np.random.default_rng(5).permutation(len(groups))
    result, events, _ = select(loss, X, labels, groups, max_groups=4)
    turned, turned_events, _ = select(loss, X, labels, [groups[k] for k in order], max_groups=4)
    assert [order[event.details["group"]] for event in turned_events] == [e.details["group"] for e in events]
    assert turned.objective == pytest.approx(result.objective, rel=1e-9)
    for k, block in turned.metric.blocks.items():
        np.testing.assert_allclose(block, result.metric.blocks[order[k]], atol=1e-8)


@pytest.mark.parametrize("changes", [{"block": 5}, {"block": 99}, {"memory_budget": 4000}], ids=str)
def test_tiles_and_memory_do_not_matter(loss, changes):
    result, events, _ = select(loss, *planted())
    other, other_events, _ = select(loss, *planted(), **changes)
    assert [event.details["group"] for event in other_events] == [event.details["group"] for event in events]
    assert other.objective == pytest.approx(result.objective, rel=1e-9)


def test_the_order_of_samples_does_not_matter(loss):
    X, labels, groups = planted()
    order = np.random.default_rng(6).permutation(len(X))
    result, _, _ = select(loss, X, labels, groups)
    turned, _, _ = select(loss, X[order], labels[order], groups)
    assert list(turned.metric.blocks) == list(result.metric.blocks)
    assert turned.objective == pytest.approx(result.objective, rel=1e-9)


def test_the_number_of_threads_changes_no_bit(loss):
    result, _, _ = select(loss, *planted(), block=7)
    for n_jobs in (2, 3):
        other, _, _ = select(loss, *planted(), block=7, n_jobs=n_jobs)
        assert other.objective == result.objective
        for k, block in result.metric.blocks.items():
            np.testing.assert_array_equal(other.metric.blocks[k], block)


def test_a_group_may_be_chosen_again(loss):
    X, labels = cases.labelled_data()
    result, events, case = select(loss, X, labels, GROUPS, max_groups=7, tol=1e-6)
    chosen = [event.details["group"] for event in events]
    A = whole_matrix(result.metric, FeatureGroups.parse(GROUPS, 6), 6)
    assert len(set(chosen)) < len(chosen)
    assert list(result.metric.blocks) == list(dict.fromkeys(chosen))
    assert [event.details["n_groups"] for event in events] == [len(set(chosen[: t + 1])) for t in range(len(chosen))]
    assert result.objective == pytest.approx(oracle.objective(case.Z, A, case.reference, RIDGE), rel=1e-9)


class BlockDiagonalProblem(JointProblem):
    """The joint problem with everything outside of the groups' blocks held at zero."""

    def value_and_gradient(self, A):
        value, G = super().value_and_gradient(A)
        return value, self.blocks_of(G)

    def project(self, A):
        return self.blocks_of(A, oracle.project_psd)

    def blocks_of(self, A, change=np.copy):
        kept = np.zeros_like(A)
        for columns in GROUPS.values():
            kept[np.ix_(columns, columns)] = change(A[np.ix_(columns, columns)])
        return kept


def test_many_rounds_come_to_the_best_block_diagonal_metric(loss):
    # Slowly, about as 1/rounds: a round can only add to a block, and shrink all of them together.
    X, labels = cases.labelled_data()
    result, _, case = select(loss, X, labels, GROUPS, max_groups=25, tol=1e-6)
    problem = BlockDiagonalProblem(case.objective, case.Z, RIDGE)
    best = minimise(problem, np.zeros((6, 6)), tol=1e-9, max_iter=2000)
    assert best.converged
    assert best.value * (1 - 1e-9) <= result.objective <= best.value * (1 + 2e-3)


def test_selection_ends_when_only_rounding_is_left(loss):
    X, labels = cases.labelled_data((4, 1, 5), 2)
    result, events, _ = select(loss, X, labels, [[0, 1]], max_groups=50, tol=1e-13)
    assert 1 <= result.n_rounds == len(events) < 50
    assert result.stopped_because == (
        f"no group lowers the objective any more, after {result.n_rounds} rounds of max_groups=50"
    )


@pytest.mark.parametrize(
    ("X", "ridge"),
    [
        (np.array([[-3.0], [3.0], [-3.0], [3.0]]), RIDGE),  # distance only harms
        (np.zeros((4, 1)), RIDGE),  # nothing to measure
        (np.array([[-3.0], [-3.0], [3.0], [3.0]]), 1e25),  # what helps costs more
    ],
    ids=["harmful", "constant", "enormous ridge"],
)
def test_selection_ends_at_once_where_no_group_helps(X, ridge, strict_warnings):
    result, events, case = select("triplet", X, np.array([0, 0, 1, 1]), [[0]], ridge=ridge)
    assert result.n_rounds == len(events) == len(result.metric.blocks) == 0
    assert result.stopped_because == "no group lowers the objective any more, after 0 rounds of max_groups=3"
    assert result.objective == case.objective.value(cases.under(case.Z, np.zeros((1, 1))))


def test_an_observer_stops_the_rounds(loss):
    result, events, _ = select(loss, *planted(), observe=lambda event: event.iteration == 2)
    assert result.n_rounds == len(events) == 2
    assert result.stopped_because == "stopped by the callback after 2 rounds"
    assert result.objective == events[-1].objective


def test_candidates_are_all_that_is_scored(loss):
    candidates = [k for k in range(len(GROUP_SIZES)) if k not in PLANTED[1:]]
    result, _, _ = select(loss, *planted(), candidates=candidates, max_groups=4)
    assert PLANTED[0] in result.metric.blocks
    assert set(result.metric.blocks) <= set(candidates)


def test_equal_groups_go_by_the_lowest_index(loss):
    X, labels, groups = planted()
    noise, best = X[:, groups[0]], X[:, groups[PLANTED[0]]]
    twins = np.hstack([noise, best, best, noise, best])
    _, events, _ = select(loss, twins, labels, 2, max_groups=1)
    assert events[0].details["group"] == 1


def test_events_tell_of_each_round(loss):
    result, events, _ = select(loss, *planted())
    assert [(event.step, event.iteration, event.total) for event in events] == [("selection", t, 3) for t in (1, 2, 3)]
    assert events[-1].rank == result.metric.rank()
    row = events[0].record()
    assert row.keys() >= {"group", "score", "alpha", "n_iter", "n_groups", "converged", "objective", "rank"}
    assert row["alpha"] == 1.0
