"""Explanations: exact sums over groups, against literal loops and against samples with a group left out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samekind import EnsembleMetric, Metric
from samekind.extraction import extract
from samekind.images.listing import list_images
from samekind.kernels.flips import flip_free_codes
from samekind.model.basis import Basis
from samekind.model.explanation import Explanation, explain_features
from samekind.model.similarity import Similarity
from tests.model.test_basis import random_basis
from tests.picture_folders import small_extractor, write_pictures


@st.composite
def metrics(draw, mirrors=("none", "mean", "distances")):
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    normalise_groups = draw(st.sampled_from(["none", "root", "unit"]))
    basis = random_basis(rng, np.arange(12), 12, normalise=normalise_groups, weigh=draw(st.sampled_from([0.0, 1.0])))
    mirror = draw(st.sampled_from(mirrors))
    r = draw(st.integers(1, 4))
    similarity = None
    if mirror != "distances" and draw(st.booleans()):
        directions = rng.standard_normal((2, basis.n_codes))
        if draw(st.booleans()):
            directions[1] = directions[0]  # a shift that no features have
        similarity = Similarity(directions, rng.standard_normal(2), rng.uniform(0, 1, 2))
    own = draw(st.booleans()) and similarity is not None
    return Metric(
        basis,
        np.zeros((0, basis.n_codes)) if own else rng.standard_normal((r, basis.n_codes)),
        normalise=draw(st.sampled_from(["none", "root", "unit"])),
        mirror=mirror,
        threshold=float(rng.uniform(0, 30)),
        similarity=similarity,
    )


def codes_of(metric, X):
    if metric.mirror == "distances":
        both = metric.transform(X)
        return flip_free_codes(both[:1], both[1:])
    return metric.transform(X.mean(axis=0, keepdims=True) if metric.mirror == "mean" else X[:1])


def samples_of(metric, seed):
    rng = np.random.default_rng(seed)
    rows = 1 if metric.mirror == "none" else 2
    return rng.standard_normal((rows, 12)), rng.standard_normal((rows, 12))


@given(metrics(), st.integers(0, 1000))
def test_terms_sum_to_the_distance(metric, seed):
    a, b = samples_of(metric, seed)
    made = explain_features(metric, a, b)
    expected = metric.code_distance(codes_of(metric, a), codes_of(metric, b))[0]
    scale = np.abs(made.terms).sum() + 1e-9
    assert made.distance == pytest.approx(expected, abs=1e-9 * scale)
    assert made.terms.sum() == pytest.approx(expected, abs=1e-9 * scale)
    assert made.shares.sum() == pytest.approx(metric.threshold)
    assert made.evidence.sum() == pytest.approx(metric.threshold - expected, abs=1e-9 * (scale + 30))
    assert made.same == (made.distance <= metric.threshold)


@given(metrics(), st.integers(0, 1000), st.data())
def test_leaving_groups_out_is_leaving_out_every_product_in_which_they_occur(metric, seed, data):
    a, b = samples_of(metric, seed)
    made = explain_features(metric, a, b)
    K = len(made.groups)
    out = data.draw(st.sets(st.integers(0, K - 1)))
    # The double sum of products, in literal loops.
    total, terms = 0.0, [0.0] * K
    for k in range(K):
        for other in range(K):
            product = sum(w * p * q for w, p, q in zip(made.weights, made.parts[k], made.parts[other], strict=True))
            terms[k] += product
            total += product * (k not in out and other not in out)
    scale = np.abs(made.parts).sum() ** 2 + 1e-9
    np.testing.assert_allclose(made.terms, terms, atol=1e-9 * scale)
    left = made.without(sorted(out))
    assert left.distance == pytest.approx(total, abs=1e-9 * scale)
    assert left.threshold == pytest.approx(sum(made.shares[k] for k in range(K) if k not in out))


@given(st.integers(0, 10**6), st.data())
def test_leaving_a_group_out_is_a_sample_with_its_columns_at_the_mean(seed, data):
    """Without normalised codes: the pair as if both showed the mean in the columns of the groups left out."""
    rng = np.random.default_rng(seed)
    normalise = data.draw(st.sampled_from(["none", "root", "unit"]))
    basis = random_basis(rng, np.arange(12), 12, normalise=normalise, with_mean=True)
    metric = Metric(basis, rng.standard_normal((3, basis.n_codes)))
    x, y = rng.standard_normal((2, 12))
    made = metric.explain(x, y)
    out = data.draw(st.sets(st.integers(0, len(made.groups) - 1)))
    at_mean = np.isin(basis.owners, list(out))
    changed = [np.where(at_mean, basis.mean, each) for each in (x, y)]
    assert made.without(list(out)).distance == pytest.approx(metric.distance(*changed), abs=1e-9)


def test_by_hand():
    """Two groups of one column each, one component (2, 1): differences 3 and -1 give (6 - 1)^2 = 30 - 5."""
    basis = Basis(
        np.arange(2), 2, groups=("eyes", "mouth"), values=np.ones(2), rows=np.arange(2), owners=np.arange(2),
        eigenvalues=np.ones(2),
    )  # fmt: skip
    metric = Metric(basis, np.array([[2.0, 1.0]]), threshold=10.0)
    made = metric.explain([3.0, 0.0], [0.0, 1.0])
    np.testing.assert_allclose(made.terms, [30, -5])
    np.testing.assert_allclose(made.shares, [8, 2])
    np.testing.assert_allclose(made.evidence, [-22, 7])
    assert made.same is False
    assert made.strongest.tolist() == [0, 1]
    assert made.supporting.tolist() == [0]
    assert made.without([0]).distance == pytest.approx(1)
    assert made.without([0]).same
    assert made.n_spare == 0
    assert (
        made.describe() == "Different, but same without the strongest region, the only one that speaks for it (eyes)."
    )
    assert metric.explain([3.0, 0.0], [0.0, 1.0], threshold=30).same


def test_the_answer_changes_exactly_after_the_spare_groups():
    rng = np.random.default_rng(0)
    for threshold in (2.0, 8.0, 40.0):
        made = Explanation(
            tuple("abcdefgh"), rng.standard_normal((8, 3)), np.ones(3), np.full(8, 1 / 8), threshold, (None,) * 8
        )
        spare, order = made.n_spare, made.supporting
        assert all(made.without(order[:n]).same == made.same for n in range(spare + 1))
        assert spare == len(order) or made.without(order[: spare + 1]).same != made.same


def test_without_a_threshold_groups_are_compared_with_their_share_of_the_distance():
    made = Metric.linear(np.eye(2), [0, 1], 2).explain([1.0, 0.0], [0.0, 0.0])
    assert made.same is None
    assert made.evidence.sum() == pytest.approx(0)
    assert "no threshold" in made.describe()
    assert made.groups == ("column 0", "column 1")
    assert made.to_json()["regions"][0]["rectangle"] is None


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return write_pictures(tmp_path_factory.mktemp("pictures") / "it", 8)


@pytest.mark.parametrize(
    ("compare_by", "mirror"), [("distance", "none"), ("distance", "distances"), ("sum", "mean"), ("similarity", "none")]
)
def test_pictures_are_explained_by_their_regions(pictures, tmp_path, compare_by, mirror):
    files = list_images(pictures, labelled=True)
    store = extract(files, tmp_path / "store", small_extractor(families=["cov", "slbp@0.5-30x40"]))
    learner = EnsembleMetric(max_groups=4, n_components=2, normalise="unit", normalise_groups="root", cv=None)
    metric = learner.set_params(compare_by=compare_by).fit(store, store.labels).metric_.with_mirror(mirror)
    a, b = files[0].path, files[5].path
    made = metric.explain(a, b)
    codes = metric.encode([a, b])
    assert made.distance == pytest.approx(float(metric.code_distance(codes[:1], codes[1:])[0]), rel=1e-3, abs=1e-4)
    assert made.groups == metric.groups
    names = dict(zip(made.groups, made.rectangles, strict=True))
    for name, (top, left, height, width) in names.items():
        size, place = name.split(" ")[1], name.split(" ")[3]
        w, h = map(int, size.split("x"))
        x, y = map(int, place.split(","))
        if name.startswith("cov"):
            assert (top, left, height, width) == (y, x, h, w)
        else:  # half the scale, 60 x 80 pixels around a crop of 40 x 56
            assert (top, left, height, width) == (2 * y - 12, 2 * x - 10, 2 * h, 2 * w)
