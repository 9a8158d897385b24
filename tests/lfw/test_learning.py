import numpy as np
import pytest

from samekind.lfw.learning import Intermediate, principal_directions


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
    alone, both = Intermediate.of(features), Intermediate.of(features, mirrored=-features)
    np.testing.assert_allclose(np.std(alone.Z, axis=0, ddof=1), 1)
    np.testing.assert_array_equal(both.Z, np.vstack([alone.Z, -alone.Z]))
    np.testing.assert_array_equal(both.deviations, alone.deviations)
