"""Samples of the pairs: which are in them and how often they count, and that what they say is right on average."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from samekind.compute.anchors import SamplingOptions, anchor_plan, subset_plan
from samekind.compute.executor import Executor
from samekind.compute.sources import PresentDistances
from samekind.compute.tiles import Tile, TilePlan
from samekind.kernels.laplacian import BlockForm, GramForm, InnerForm, ProductForm
from samekind.kernels.statistics import standard_error
from samekind.kernels.types import places
from samekind.relation import Relation
from tests import cases, oracle

A = cases.random_psd(6)
SMALL_TILES = 20_000  # bytes of a budget whose tiles have some 13 cells

class_sizes = st.lists(st.integers(1, 12), min_size=2, max_size=9).map(np.array)
seeds = st.integers(0, 10**6)
spans = st.integers(1, 16)
plan_cells = st.integers(1, 80)


def codes_of(sizes):
    return np.repeat(np.arange(len(sizes)), sizes)


def of_one_class(sizes):
    """Which ordered pairs are of one class, a sample and itself left out."""
    codes = codes_of(sizes)
    return (codes[:, None] == codes) & ~np.eye(len(codes), dtype=bool)


def of_two_classes(sizes):
    codes = codes_of(sizes)
    return codes[:, None] != codes


def counted(plan, codes):
    """How often each ordered pair counts, all tiles together: (N, N)."""
    same = codes[:, None] == codes
    times = np.zeros(same.shape)
    for tile in plan.tiles():
        rows, cols = places(tile.rows), places(tile.cols)
        here = np.where(same[np.ix_(rows, cols)], tile.same, tile.others)
        times[np.ix_(rows, cols)] += here
        if tile.mirrored:
            times[np.ix_(cols, rows)] += here.T
    return times


def drawn(sizes, n_anchors, seed=0, *, candidates=None, cells=50, all_same=True, **options):
    candidates = np.arange(sizes.sum()) if candidates is None else candidates
    rng, cut = np.random.RandomState(seed), SamplingOptions(**options)
    return anchor_plan(candidates, sizes, n_anchors, rng, cells=cells, all_same=all_same, options=cut)


# -- which pairs ------------------------------------------------------------------------------------------------------


@given(class_sizes, st.integers(1, 200), seeds, spans, plan_cells)
def test_all_pairs_of_one_class_count_once_beside_any_anchors(sizes, n_anchors, seed, span, cells):
    plan = drawn(sizes, n_anchors, seed, cells=cells, packed=span)
    times = counted(plan, codes_of(sizes))
    assert (times[of_one_class(sizes)] == 1).all()


@given(class_sizes, st.integers(1, 200), seeds, plan_cells)
def test_pairs_of_two_classes_count_by_their_share_in_the_rows_of_anchors_and_nowhere_else(sizes, n, seed, cells):
    plan = drawn(sizes, n, seed, cells=cells)
    times, two_classes = counted(plan, codes_of(sizes)), of_two_classes(sizes)
    is_anchor = np.isin(np.arange(len(times)), plan.anchors)
    assert is_anchor.sum() == plan.n_anchors == min(n, len(times))
    assert (times[is_anchor] == len(times) / plan.n_anchors)[two_classes[is_anchor]].all()
    assert (times[~is_anchor] == 0)[two_classes[~is_anchor]].all()


@given(class_sizes, st.integers(1, 200), seeds, plan_cells, st.data())
def test_where_rows_are_averaged_anchors_meet_every_column_once(sizes, n, seed, cells, data):
    candidates = np.array(data.draw(st.lists(st.sampled_from(range(sizes.sum())), min_size=1, unique=True)))
    plan = drawn(sizes, n, seed, cells=cells, candidates=candidates, all_same=False)
    times = counted(plan, codes_of(sizes))
    assert not plan.class_tiles
    assert set(plan.anchors) <= set(candidates)
    assert len(set(plan.anchors)) == plan.n_anchors == min(n, len(candidates))
    assert (times[plan.anchors] == 1).all()
    assert times.sum() == plan.n_anchors * len(times)


@given(class_sizes, st.integers(1, 200), seeds, spans, plan_cells)
def test_tiles_are_numbered_and_of_the_size_asked_for(sizes, n, seed, span, cells):
    plan = drawn(sizes, n, seed, cells=cells, packed=span)
    tiles = list(plan.tiles())
    n_batches = len(plan.batches)
    of_anchors = [tile for tile in tiles if tile.number < n_batches]
    assert len(tiles) == plan.n_tiles == len({tile.key for tile in tiles})
    assert all(tile.rows is plan.batches[tile.number] for tile in of_anchors)
    assert all(tile.others == 0 for tile in tiles if tile.number >= n_batches)
    assert all(tile.size <= max(cells, len(tile.rows)) for tile in of_anchors)
    assert all(tile.size <= max(cells, span**2, len(tile.rows)) for tile in tiles)
    assert (np.diff(np.concatenate(plan.batches)) > 0).all()


@given(class_sizes, seeds, spans, st.integers(1, 10))
def test_of_a_big_class_some_rows_count_for_all(sizes, seed, span, most):
    plan = drawn(sizes, 2, seed, packed=span, most_class_rows=most)
    times = counted(plan, codes_of(sizes)) * (of_one_class(sizes) | np.eye(sizes.sum(), dtype=bool))
    starts = np.cumsum(sizes) - sizes
    for start, size in zip(starts, sizes, strict=True):
        rows = times[start : start + size, start : start + size]
        if size > max(span, most):
            assert (rows[:, :1] == rows).all()
            assert np.count_nonzero(rows[:, 0]) == most
            np.testing.assert_allclose(rows[rows > 0], size / most)
        elif size > 1:
            assert (rows == 1).all()


@given(class_sizes, st.integers(2, 200), seeds, plan_cells)
def test_pairs_of_two_classes_among_some_samples_count_for_all_such_pairs(sizes, n, seed, cells):
    codes = codes_of(sizes)
    n = min(n, len(codes))
    members = np.sort(np.random.RandomState(seed).permutation(len(codes))[:n])
    assume(len(np.unique(codes[members])) > 1)
    plan = subset_plan(sizes, codes, n, np.random.RandomState(seed), cells=cells)
    times, two_classes = counted(plan, codes), of_two_classes(sizes)
    among = np.isin(np.arange(len(codes)), plan.members)
    assert plan.n_anchors == among.sum() == n
    assert (times[of_one_class(sizes)] == 1).all()
    assert (times[two_classes & np.outer(among, among)] == plan.others).all()
    assert (times[two_classes & ~np.outer(among, among)] == 0).all()
    assert times[two_classes].sum() == pytest.approx(two_classes.sum(), rel=1e-12)
    assert plan.n_tiles == len({tile.key for tile in plan.tiles()}) == len(list(plan.tiles()))


def test_all_samples_as_a_subset_are_all_pairs():
    sizes = np.array([5, 1, 4, 2])
    plan = subset_plan(sizes, codes_of(sizes), 12, np.random.RandomState(0), cells=9)
    assert plan.others == 1
    times = counted(plan, codes_of(sizes))
    assert (times[~np.eye(12, dtype=bool)] == 1).all()


def test_other_seeds_draw_other_anchors_and_the_same_seed_the_same():
    sizes = np.full(10, 5)
    first, again, other = (drawn(sizes, 9, seed).anchors.tolist() for seed in (0, 0, 1))
    assert first == again != other


@given(class_sizes, st.data())
def test_the_relation_between_any_samples_is_that_of_their_labels(sizes, data):
    relation = Relation.from_labels(codes_of(sizes))
    some = st.lists(st.sampled_from(range(sizes.sum())), min_size=1, unique=True).map(sorted).map(np.array)
    rows, cols = data.draw(some), data.draw(some)
    tile = relation.tile(rows, cols)
    same = np.zeros((len(rows), len(cols)), dtype=bool)
    same[tile.same] = True
    D = np.ones(same.shape)
    np.testing.assert_array_equal(same, of_one_class(sizes)[np.ix_(rows, cols)])
    np.testing.assert_array_equal(tile.others(D) == 1, of_two_classes(sizes)[np.ix_(rows, cols)])


# -- what a sample says -----------------------------------------------------------------------------------------------


def scarce(loss, **options):
    """A case in whose samples there are several runs of columns."""
    case = cases.case(loss, **options)
    return case.with_plan(5, memory_budget=SMALL_TILES)


def forms(case):
    fixed = cases.under(case.Z, cases.random_psd(6, seed=5))
    return {
        "gram": GramForm(case.Z),
        "block": BlockForm(case.Z, [slice(0, 2), slice(2, 6)]),
        "product": ProductForm(case.Z[:, :2]),
        "inner": InnerForm(ProductForm(case.Z[:, :2]), lambda tile: fixed.tile(Tile(tile.rows, tile.cols))),
    }


def everything(case, objective):
    """The value, alone and with each form, and each form as one vector."""
    source = cases.under(case.Z, A)
    values, made = [objective.value(source)], {}
    for name, form in forms(case).items():
        value, result = objective.value_and_form(source, form)
        values.append(value)
        made[name] = np.concatenate([np.ravel(r) for r in (result if isinstance(result, list | tuple) else [result])])
    return values, made


@pytest.mark.parametrize("loss", cases.ALL_LOSSES)
def test_anchors_that_are_to_be_left_out_are(loss):
    case = scarce(loss)
    one = case.objective.sampled(4, np.random.RandomState(0))
    for seed in range(10):
        other = case.objective.sampled(4, np.random.RandomState(seed), without=one.anchors)
        assert len(other.anchors) == 4
        assert not set(other.anchors) & set(one.anchors)
    plain = case.objective.sampled(4, np.random.RandomState(0))
    np.testing.assert_array_equal(plain.anchors, one.anchors)
    assert other.plan.others == plain.plan.others  # all rows are estimated, not all but some


def samples_of_everything(case):
    rng = np.random.RandomState(3)
    yield case.objective.sampled(case.objective.n_candidates, rng)
    yield case.objective.sampled(10**6, rng)
    yield case.objective.sampled_pairs(len(case.Z) if case.objective.loss.has_all_same else 4 * len(case.Z), rng)


@pytest.mark.parametrize("loss", cases.ALL_LOSSES)
@pytest.mark.parametrize("span", [1, 3, 128])
def test_a_sample_of_everything_says_what_all_pairs_say(loss, span):
    case = scarce(loss, sampling=SamplingOptions(packed=span))
    (value, *_), expected = everything(case, case.objective)
    for sample in samples_of_everything(case):
        assert sample.is_sample
        assert sample.n_anchors <= len(case.Z)
        values, made = everything(case, sample)
        assert values == pytest.approx([value] * len(values), rel=1e-12)
        for name in expected:
            assert cases.relative_error(made[name], expected[name]) < 1e-11, name


@pytest.mark.parametrize("loss", cases.ALL_LOSSES)
@pytest.mark.parametrize("n_anchors", [1, 3, 11])
def test_a_sample_says_what_its_rows_would_say_to_the_oracle(loss, n_anchors):
    """Each pair of the oracle's, as often as the plan counts it; of triplets, the mean over the anchors."""
    case = scarce(loss)
    sample = case.objective.sampled(n_anchors, np.random.RandomState(1))
    D = oracle.distances(case.Z, A)
    if loss.startswith("pairwise"):
        times = counted(sample.plan, case.objective.relation.codes)
        np.fill_diagonal(times, 0)
        W = times * case.reference.weights(D)
        value = pairwise_value(case, D, times)
    else:
        case.reference.anchors = rows = sample.plan.anchors.tolist()
        assert len(rows) == n_anchors
        W, value = case.reference.weights(D), case.reference.value(D)
    made_value, G = sample.value_and_form(cases.under(case.Z, A), GramForm(case.Z))
    assert made_value == pytest.approx(value, rel=1e-11)
    assert cases.relative_error(G, oracle.gradient(case.Z, W)) < 1e-11


def pairwise_value(case, D, times):
    total = 0.0
    for i in range(len(D)):
        for j in range(len(D)):
            kind = oracle.pi(case.labels, i, j)
            if times[i, j]:
                share = case.reference.share(i, kind)
                total += times[i, j] * share * oracle.softplus(kind * (D[i, j] - cases.THRESHOLD)) / np.log(2)
    return total


UNEQUAL = (7, 2, 5, 1, 3, 6)


@pytest.mark.parametrize(
    ("loss", "most_class_rows"),
    [("pairwise-equal", 1024), ("pairwise-equal", 3), ("triplet", 1024), ("triplet-2-neighbors", 1024)],
)
def test_samples_are_right_on_average(loss, most_class_rows):
    case = cases.case(loss, UNEQUAL, sampling=SamplingOptions(packed=3, most_class_rows=most_class_rows))
    source, form = cases.under(case.Z, A), GramForm(case.Z)
    value, G = case.objective.value_and_form(source, form)
    said = []
    for seed in range(120):
        sampled_value, sampled_G = case.objective.sampled(8, np.random.RandomState(seed)).value_and_form(source, form)
        said.append(np.append(sampled_G[np.triu_indices(6)], sampled_value))
    exact, mean = np.append(G[np.triu_indices(6)], value), np.mean(said, axis=0)
    errors = np.std(said, axis=0, ddof=1) / len(said) ** 0.5
    assert errors[-1] < 0.03 * value  # so a wrong factor would show
    assert (np.abs(mean - exact) <= 4 * errors).all()


def test_subsets_of_equal_classes_are_right_on_average():
    """Of unequal ones nearly so: how many pairs of two classes a subset has is then a matter of chance too."""
    case = cases.case("pairwise-equal", (4,) * 7)
    source = cases.under(case.Z, A)
    said = [case.objective.sampled_pairs(12, np.random.RandomState(seed)).value(source) for seed in range(100)]
    error = np.std(said, ddof=1) / len(said) ** 0.5
    assert error < 0.02 * case.objective.value(source)
    assert abs(np.mean(said) - case.objective.value(source)) <= 4 * error


@pytest.mark.parametrize("loss", cases.ALL_LOSSES)
@pytest.mark.parametrize("n_anchors", [2, 9, 14, 999])
def test_batches_have_the_value_as_their_mean(loss, n_anchors):
    case = scarce(loss, sizes=(5, 2, 4, 2, 1, 3), sampling=SamplingOptions(batches=5))
    sample = case.objective.sampled(n_anchors, np.random.RandomState(0))
    source = cases.under(case.Z, A)
    estimates = sample.batch_values(source)
    shares = [len(batch) for batch in sample.plan.batches]
    assert len(estimates) == min(5, n_anchors)
    assert np.average(estimates, weights=shares) == pytest.approx(sample.value(source), rel=1e-12)


def test_only_anchors_have_batches():
    case = cases.case("pairwise-equal")
    subset = case.objective.sampled_pairs(9, np.random.RandomState(0))
    assert subset.is_sample
    assert subset.anchors.tolist() == subset.plan.members.tolist()
    for objective in (case.objective, subset):
        with pytest.raises(ValueError, match="Only a sample of anchors"):
            objective.batch_values(cases.under(case.Z, A))


def estimated_over_actual_noise(case, n_anchors, n_seeds=30):
    source = cases.under(case.Z, A)
    samples = [case.objective.sampled(n_anchors, np.random.RandomState(seed)) for seed in range(n_seeds)]
    values = [sample.value(source) for sample in samples]
    errors = [standard_error(sample.batch_values(source)) for sample in samples]
    return np.mean(errors) / np.std(values, ddof=1)


@pytest.mark.parametrize("loss", cases.BOTH_LOSSES)
def test_the_spread_of_batches_is_the_noise_of_the_value(loss):
    assert 1 / 1.6 < estimated_over_actual_noise(cases.case(loss, (3,) * 60, block=60), 48) < 1.6


@pytest.mark.parametrize("loss", cases.BOTH_LOSSES)
def test_few_classes_of_unlike_spread_do_not_hide_the_noise(loss):
    """A batch has few classes, so its spread holds what is between them too: it may say more than there is."""
    X, y = cases.labelled_data((40,) * 5)
    centres = np.stack([X[y == k].mean(axis=0) for k in range(5)])[y]
    unlike = centres + (X - centres) * np.linspace(0.3, 2.5, 5)[y][:, None]
    assert estimated_over_actual_noise(cases.case_of(loss, unlike, y, block=60), 48) > 1 / 1.6


@pytest.mark.parametrize("n_jobs", [2, 3])
@pytest.mark.parametrize("loss", cases.BOTH_LOSSES)
def test_the_number_of_threads_changes_no_bit_of_a_sample(loss, n_jobs):
    here, there = (scarce(loss, dtype=np.float32).with_plan(5, memory_budget=9000, n_jobs=n) for n in (1, n_jobs))
    for draw in ("sampled", "sampled_pairs"):
        made = [everything(c, getattr(c.objective, draw)(12, np.random.RandomState(0))) for c in (here, there)]
        assert made[0][0] == made[1][0]
        for name, expected in made[0][1].items():
            np.testing.assert_array_equal(made[1][1][name], expected, err_msg=name)


# -- present distances of any rows and columns ------------------------------------------------------------------------

N = 13
Z = np.random.default_rng(0).normal(size=(N, 3))
some_samples = st.one_of(
    st.lists(st.sampled_from(range(N)), min_size=1, unique=True).map(sorted).map(np.array),
    st.tuples(st.integers(0, N - 1), st.integers(1, N)).map(lambda at: slice(at[0], min(N, sum(at)))),
)


def present_distances(kept_tiles, block=4):
    """After two updates, and the matrix that the distances are under."""
    plan = TilePlan(N, block)
    present = PresentDistances(plan, np.float64, kept_tiles * block**2 * 8)
    M = np.zeros((3, 3))
    for alpha, seed in [(1.0, 1), (0.6, 2)]:
        L = np.random.default_rng(seed).normal(size=(3, 2))
        present.update(alpha, Z @ L, Executor(1))
        M = alpha * M + L @ L.T
    return present, oracle.distances(Z, M)


keeping = pytest.mark.parametrize("kept_tiles", [0, 3, 100], ids=["keeps none", "some", "all"])
PRESENT = {kept: present_distances(kept) for kept in (0, 3, 100)}


@keeping
@given(rows=some_samples, cols=some_samples)
def test_present_distances_of_any_rows_and_columns(kept_tiles, rows, cols):
    present, D = PRESENT[kept_tiles]
    assert len(present.kept) == min(kept_tiles, present.plan.n_tiles)
    cells = present.cells(Tile(rows, cols, 0))
    expected = D[np.ix_(places(rows), places(cols))]
    assert cells.shape == expected.shape
    np.testing.assert_allclose(cells, expected, atol=1e-12 * D.max())


@keeping
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_present_distances_on_another_plan(kept_tiles, n_jobs):
    present, D = PRESENT[kept_tiles]
    sizes = np.array([4, 1, 6, 2])
    rng = np.random.RandomState(0)
    plans = [
        drawn(sizes, 7, cells=9),
        drawn(sizes, 5, cells=9, all_same=False),
        subset_plan(sizes, codes_of(sizes), 8, rng, cells=4),
    ]
    for plan in plans:
        source = present.on(plan, Executor(n_jobs))
        assert len(source.tiles) == plan.n_tiles
        for tile in plan.tiles():
            expected = D[np.ix_(places(tile.rows), places(tile.cols))]
            np.testing.assert_allclose(source.tile(tile), expected, atol=1e-12 * D.max())
