import numpy as np
import pytest

from samekind.images.extractor import Extractor
from samekind.lfw.learning import Intermediate, joined, principal_directions, region_starts
from samekind.model.metric import Metric


@pytest.fixture
def features():
    """Thirty deviations that fall steeply, in no special directions."""
    rng = np.random.default_rng(0)
    turned, _ = np.linalg.qr(rng.standard_normal((30, 30)))
    return (rng.standard_normal((200, 30)) * 0.7 ** np.arange(30)) @ turned


def test_principal_directions_are_those_of_the_largest_variance(features):
    found = principal_directions(features, 6, seed=0)
    np.testing.assert_allclose(found @ found.T, np.eye(6), atol=1e-10)
    variances = np.linalg.eigvalsh(np.cov(features.T))[::-1][:6]
    np.testing.assert_allclose(np.var(features @ found.T, axis=0, ddof=1), variances, rtol=1e-6)


def test_principal_directions_are_the_same_each_time(features):
    np.testing.assert_array_equal(principal_directions(features, 6, seed=0), principal_directions(features, 6, seed=0))


@pytest.mark.parametrize("n", [None, 30, 31])
def test_all_features_need_no_directions(features, n):
    assert principal_directions(features, n, seed=0) is None


def test_mirror_images_come_after_the_others_and_by_their_deviations(features):
    starts = np.array([0, 12])
    alone, both = Intermediate.of(features, starts), Intermediate.of(features, starts, mirrored=-features)
    np.testing.assert_allclose(np.std(alone.Z, axis=0, ddof=1), 1)
    np.testing.assert_array_equal(both.Z, np.vstack([alone.Z, -alone.Z]))
    np.testing.assert_array_equal(both.deviations, alone.deviations)


def test_families_stand_side_by_side_each_with_its_own_regions(features):
    one, two = Intermediate.of(features[:, :10], np.array([0, 4])), Intermediate.of(features[:, 10:], np.array([0, 7]))
    both = Intermediate.together([one, two])
    np.testing.assert_array_equal(both.Z, np.hstack([one.Z, two.Z]))
    np.testing.assert_array_equal(both.deviations, np.concatenate([one.deviations, two.deviations]))
    assert both.starts.tolist() == [0, 4, 10, 17]


@pytest.mark.parametrize("power", [0, 0.5, 1])
def test_weights_are_powers_of_the_deviations_and_1_in_the_mean_square(features, power):
    made = Intermediate.of(features, np.array([0]))
    weights = made.weights(power)
    assert np.mean(weights**2) == pytest.approx(1)
    np.testing.assert_allclose(weights / weights[0], (made.deviations / made.deviations[0]) ** power)


@pytest.fixture
def rng():
    return np.random.default_rng(1)


@pytest.fixture
def firsts(rng):
    """Metrics of step 1 of two families, of three regions each, two codes of a region, not in the order of columns."""

    def first(family, size):
        extractor = Extractor.over([family], n_regions=30).only([2, 11, 20])
        components = np.zeros((6, 3 * size), np.float32)
        for row, region in enumerate([1, 1, 2, 2, 0, 0]):
            components[row, region * size : (region + 1) * size] = rng.standard_normal(size)
        return Metric(
            components,
            np.arange(3 * size) + 5,
            40 * size,
            groups=tuple(f"{family} {region}" for region in (1, 2, 0)),
            mean=rng.standard_normal(3 * size).astype(np.float32),
            extractor=extractor.to_json(),
        )

    return [first("cov", 45), first("slbp", 59)]


def test_regions_begin_where_step_1_has_their_first_code(firsts):
    assert [region_starts(first).tolist() for first in firsts] == [[0, 2, 4]] * 2


@pytest.mark.parametrize("normalise", ["none", "root", "unit"])
def test_a_joined_metric_reads_features_of_all_families_region_by_region(firsts, rng, normalise):
    components, deviations = rng.standard_normal((4, 12)), rng.uniform(0.5, 2, 12)
    metric = joined(firsts, components, deviations, normalise)
    X = rng.standard_normal((7, metric.n_columns)).astype(np.float32)
    halves = np.split(X, [firsts[0].n_columns], axis=1)
    Z = np.hstack([first.transform(half) for first, half in zip(firsts, halves, strict=True)]) / deviations
    lengths = np.sqrt((Z.reshape(7, 6, 2) ** 2).mean(axis=2)).repeat(2, axis=1)
    divided = Z / lengths ** {"none": 0, "root": 0.5, "unit": 1}[normalise]
    np.testing.assert_allclose(metric.transform(X), divided @ components.T, rtol=2e-4, atol=2e-5)
    assert (metric.group_codes is None) == (normalise == "none")
    assert metric.columns.tolist() == [*(np.arange(135) + 5), *(np.arange(177) + 5 + 40 * 45)]
