"""Expectation maximisation for the two-covariance model, against the Gaussian likelihood written out."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from samekind.kernels.scatters import class_statistics, variance_components
from samekind.solvers.two_covariance import ClassStatistics, fit_two_covariance

SETTINGS = {"shrinkage": 0.3, "prior_classes": 5.0, "max_iter": 15, "tol": 0.0}


def variances(Z, classes):
    """Within classes, and of their centres."""
    return variance_components(*class_statistics(Z, classes)[1:])


def samples(sizes, D, seed=0, spread=2.0):
    rng = np.random.default_rng(seed)
    classes = np.repeat(np.arange(len(sizes)), sizes)
    centres = spread * rng.standard_normal((len(sizes), D))
    return centres[classes] + rng.standard_normal((len(classes), D)) + 5, classes


def log_likelihood(Z, classes, mean, between, within):
    """All samples of a class are one long Gaussian vector."""
    total = 0.0
    for each in np.unique(classes):
        own = Z[classes == each] - mean
        n, D = own.shape
        cov = np.kron(np.eye(n), within) + np.kron(np.ones((n, n)), between)
        total += multivariate_normal(cov=cov).logpdf(own.ravel()) + n * D / 2 * np.log(2 * np.pi)
    return total


def log_inverse_wishart(covariance, variance, strength):
    """Whose mode is a multiple of the identity, counting as so many samples or classes."""
    return -strength / 2 * (np.linalg.slogdet(covariance)[1] + variance * np.trace(np.linalg.inv(covariance)))


def log_prior(statistics, between, within, shrinkage, prior_classes):
    strength = shrinkage / (1 - shrinkage) * statistics.sizes.sum()
    within_target, target = variance_components(statistics.sizes, statistics.centres, statistics.scatter)
    own = log_inverse_wishart(within, within_target, strength)
    return own + (log_inverse_wishart(between, target, prior_classes) if target and prior_classes else 0.0)


class_sizes = st.lists(st.integers(1, 6), min_size=2, max_size=8).filter(lambda sizes: max(sizes) > 1)


prior_classes = st.sampled_from([0.0, 0.5, 5.0, 100.0])


@given(class_sizes, st.integers(1, 4), st.floats(1e-3, 0.95), prior_classes, st.integers(0, 1000))
def test_objective_is_the_log_likelihood_and_the_log_prior_of_a_sample(sizes, D, shrinkage, prior_classes, seed):
    Z, classes = samples(sizes, D, seed)
    statistics = ClassStatistics(*class_statistics(Z, classes))
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((2, D, D + 2))
    between, within = factors[0] @ factors[0].T, factors[1] @ factors[1].T + 0.1 * np.eye(D)
    _, _, objective = statistics.round(between, within, statistics.prior(shrinkage, prior_classes))
    expected = log_likelihood(Z, classes, Z.mean(axis=0), between, within)
    expected += log_prior(statistics, between, within, shrinkage, prior_classes)
    assert objective == pytest.approx(expected / len(Z), rel=1e-8, abs=1e-8)


@given(class_sizes, st.integers(1, 6), st.floats(1e-3, 0.95), prior_classes, st.booleans(), st.integers(0, 1000))
def test_no_round_lowers_the_objective(sizes, D, shrinkage, prior_classes, weighted, seed):
    Z, classes = samples(sizes, D, seed)
    weights = np.random.default_rng(seed).uniform(0.2, 5, len(Z)) if weighted else None
    model = fit_two_covariance(
        Z,
        classes,
        shrinkage=shrinkage,
        prior_classes=prior_classes,
        max_iter=12,
        tol=0.0,
        sample_weight=weights,
    )
    assert all(after >= before - 1e-9 * (1 + abs(before)) for before, after in pairwise(model.objectives))
    for matrix in (model.between, model.within):
        np.testing.assert_array_equal(matrix, matrix.T)
    assert np.linalg.eigvalsh(model.within).min() > 0


def test_objectives_are_those_of_the_rounds():
    Z, classes = samples((5, 3, 1, 6), 3)
    statistics = ClassStatistics(*class_statistics(Z, classes))
    for rounds in (1, 4):
        model = fit_two_covariance(Z, classes, **SETTINGS | {"max_iter": rounds})
        assert len(model.objectives) == rounds + 1
        likelihood = log_likelihood(Z, classes, model.mean, model.between, model.within)
        prior = log_prior(statistics, model.between, model.within, 0.3, 5.0)
        assert model.objectives[-1] == pytest.approx((likelihood + prior) / len(Z))


@pytest.mark.parametrize("prior_classes", [0.0, 2.0])
def test_a_maximum_is_reached(prior_classes):
    """No small change of either covariance is better."""
    Z, classes = samples((5, 4, 6, 5, 3), 2)
    statistics = ClassStatistics(*class_statistics(Z, classes))
    prior = statistics.prior(0.2, prior_classes)
    model = fit_two_covariance(Z, classes, shrinkage=0.2, prior_classes=prior_classes, max_iter=3000, tol=0.0)
    best = statistics.round(model.between, model.within, prior)[2]
    rng = np.random.default_rng(0)
    for _ in range(20):
        changes = 1e-3 * rng.standard_normal((2, 2, 2))
        B, W = (A + each + each.T for A, each in zip((model.between, model.within), changes, strict=True))
        assert statistics.round(B, W, prior)[2] < best + 1e-9


def test_covariances_are_found_again():
    rng = np.random.default_rng(0)
    between, within = np.array([[3.0, 1.0], [1.0, 2.0]]), np.array([[1.0, -0.4], [-0.4, 0.5]])
    classes = np.repeat(np.arange(3000), rng.integers(1, 6, 3000))
    centres = rng.multivariate_normal([7, -2], between, 3000)
    Z = centres[classes] + rng.multivariate_normal([0, 0], within, len(classes))
    model = fit_two_covariance(Z, classes, **SETTINGS | {"shrinkage": 1e-4, "max_iter": 100, "tol": 1e-9})
    np.testing.assert_allclose(model.between, between, atol=0.15)
    np.testing.assert_allclose(model.within, within, atol=0.03)
    np.testing.assert_allclose(model.mean, Z.mean(axis=0))
    assert variances(Z, classes)[1] == pytest.approx(np.trace(between) / 2, rel=0.05)


def test_the_variance_of_centres_is_what_that_within_does_not_explain():
    """Classes of one size n: the centres' own, less a share 1 / n of that within."""
    Z, classes = samples((4,) * 7, 3)
    centres = Z.reshape(7, 4, 3).mean(axis=1)
    own = centres.var(axis=0, ddof=1) - Z.reshape(7, 4, 3).var(axis=1, ddof=1).mean(axis=0) / 4
    assert variances(Z, classes)[1] == pytest.approx(own.mean())


def test_without_a_prior_the_centres_of_few_classes_vary_in_few_directions():
    Z, classes = samples((6, 6, 6), 8)
    ranks = []
    for prior_classes in (0.0, 1.0):
        B = fit_two_covariance(Z, classes, **SETTINGS | {"prior_classes": prior_classes}).between
        ranks.append(np.linalg.matrix_rank(B, tol=1e-6 * np.trace(B)))
    assert ranks == [2, 8]


def test_a_strong_prior_makes_the_centres_vary_equally_in_all_directions():
    Z, classes = samples((6, 5, 6, 4), 3)
    expected = variances(Z, classes)[1] * np.eye(3)
    model = fit_two_covariance(Z, classes, **SETTINGS | {"prior_classes": 1e9})
    np.testing.assert_allclose(model.between, expected, rtol=1e-6, atol=1e-6)


def test_the_prior_of_few_classes_hardly_matters_among_thousands():
    Z, classes = samples(np.random.default_rng(0).integers(1, 6, 4000), 4)
    one, other = (fit_two_covariance(Z, classes, **SETTINGS | {"prior_classes": each}) for each in (0.0, 5.0))
    np.testing.assert_allclose(other.between, one.between, rtol=5e-3, atol=5e-3)
    np.testing.assert_allclose(other.within, one.within, rtol=5e-3, atol=5e-3)


def test_where_classes_do_not_differ_no_variance_between_them_is_expected():
    statistics = ClassStatistics(
        *class_statistics(np.tile([[1.0, 2.0], [3.0, 1.0]], (4, 1)), np.repeat(np.arange(4), 2))
    )
    assert statistics.prior(0.3, 5.0).between == 0
    assert statistics.prior(0.3, 5.0).classes == 0
    np.testing.assert_array_equal(statistics.first_guess(statistics.prior(0.3, 5.0))[0], 0)


def assert_same_model(one, other, rtol=1e-8):
    for name in ("mean", "between", "within", "objectives"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=rtol, atol=1e-9)


def test_a_weight_of_two_is_the_sample_twice():
    Z, classes = samples((5, 3, 1, 6), 3)
    weights = np.where(np.arange(len(Z)) % 3 == 0, 2.0, 1.0)
    repeated = np.repeat(np.arange(len(Z)), weights.astype(int))
    assert_same_model(
        fit_two_covariance(Z, classes, **SETTINGS, sample_weight=weights),
        fit_two_covariance(Z[repeated], classes[repeated], **SETTINGS),
    )


def test_order_and_blocks_do_not_matter():
    Z, classes = samples((5, 3, 1, 6), 3)
    whole = fit_two_covariance(Z, classes, **SETTINGS)
    shuffled = np.random.default_rng(1).permutation(len(Z))
    assert_same_model(whole, fit_two_covariance(Z[shuffled], classes[shuffled], **SETTINGS))
    assert_same_model(whole, fit_two_covariance(Z, classes, **SETTINGS, rows_at_once=2))


def test_rotations_and_units_do_not_matter():
    Z, classes = samples((5, 3, 4, 6), 3)
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    one = fit_two_covariance(Z, classes, **SETTINGS)
    other = fit_two_covariance(10 * Z @ turn.T, classes, **SETTINGS)
    np.testing.assert_allclose(other.between, 100 * turn @ one.between @ turn.T, rtol=1e-8)
    np.testing.assert_allclose(other.within, 100 * turn @ one.within @ turn.T, rtol=1e-8)


def test_shrinkage_makes_variances_within_classes_equal():
    Z, classes = samples((8, 9, 7), 3)
    Z = Z * [1, 3, 9]
    ratios = []
    for shrinkage in (0.01, 0.5, 0.999):
        values = np.linalg.eigvalsh(fit_two_covariance(Z, classes, **SETTINGS | {"shrinkage": shrinkage}).within)
        ratios.append(values[-1] / values[0])
    assert ratios[0] > 10 > ratios[1] > 1.1 > ratios[2] >= 1


@pytest.mark.parametrize(
    ("sizes", "D"),
    [((1, 1, 1, 2), 3), ((2, 2), 8), ((300, 1, 1), 3), ((1,) * 6, 2)],
    ids=["singletons", "wide", "one large class", "singletons alone"],
)
def test_odd_class_sizes(sizes, D):
    model = fit_two_covariance(*samples(sizes, D), **SETTINGS)
    assert np.isfinite(model.between).all()
    assert np.linalg.eigvalsh(model.within).min() > 0
    assert all(after >= before - 1e-9 for before, after in pairwise(model.objectives))


@pytest.mark.parametrize("alike", ["columns", "classes", "all"])
def test_data_without_variance(alike):
    Z, classes = samples((4, 3, 5), 3)
    if alike == "columns":
        Z[:, 1] = 2.0
    else:
        Z = np.ones((3, 3))[classes] if alike == "all" else np.eye(3)[classes]
    model = fit_two_covariance(Z, classes, **SETTINGS)
    assert np.isfinite(model.objectives).all()
    assert np.linalg.eigvalsh(model.within).min() > 0


def test_float32_agrees():
    Z, classes = samples((5, 3, 4, 6), 3)
    rounds = SETTINGS | {"max_iter": 4}
    one, other = (fit_two_covariance(each, classes, **rounds) for each in (Z, Z.astype(np.float32)))
    assert_same_model(one, other, rtol=1e-4)
    assert other.between.dtype == np.float64


def test_it_ends_once_a_round_gains_little():
    Z, classes = samples((5, 3, 4, 6), 3)
    slow = SETTINGS | {"prior_classes": 0.0}
    loose = fit_two_covariance(Z, classes, **slow | {"max_iter": 500, "tol": 1e-2})
    tight = fit_two_covariance(Z, classes, **slow | {"max_iter": 500, "tol": 1e-6})
    short = fit_two_covariance(Z, classes, **slow | {"max_iter": 2, "tol": 1e-9})
    assert len(short.objectives) == 3 < len(loose.objectives) < len(tight.objectives) < 500
    assert (loose.converged, tight.converged, short.converged) == (True, True, False)
    assert loose.objectives[-1] <= tight.objectives[-1]
