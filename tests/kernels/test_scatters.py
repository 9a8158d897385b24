"""Scatter of samples against the definition, sample by sample."""

import numpy as np
import pytest

from samekind.kernels.scatters import BETWEEN, principal_deviations, scatters

SIZES = np.array([3, 1, 4, 2])


def samples(seed=0, width=5):
    Z = np.random.default_rng(seed).normal(size=(SIZES.sum(), width)) * [1e-3, 1, 10, 1, 100][:width]
    return Z - Z.mean(axis=0)


def means_of_classes(Z):
    ends = np.cumsum(SIZES)
    return np.concatenate(
        [np.tile(Z[end - size : end].mean(axis=0), (size, 1)) for end, size in zip(ends, SIZES, strict=True)]
    )


def test_scatters_are_means_of_outer_products():
    Z = samples()
    total, between = scatters(Z, SIZES, map)
    M = means_of_classes(Z)
    np.testing.assert_allclose(total, np.mean([np.outer(z, z) for z in Z], axis=0), rtol=1e-12)
    np.testing.assert_allclose(between, np.mean([np.outer(m, m) for m in M], axis=0), rtol=1e-9, atol=1e-12)


def test_deviations_are_those_along_orthonormal_axes():
    Z = samples()
    deviations, axes = principal_deviations(Z, SIZES)
    np.testing.assert_allclose(axes.T @ axes, np.eye(5), atol=1e-12)
    assert (np.diff(deviations) <= 0).all()
    along = (Z - (1 - BETWEEN) * means_of_classes(Z)) @ axes
    np.testing.assert_allclose(np.sqrt((along**2).mean(axis=0)), deviations, rtol=1e-9)


def test_a_constant_feature_has_no_deviation(strict_warnings):
    Z = samples()
    Z[:, 1] = 0
    deviations, axes = principal_deviations(Z, SIZES)
    assert deviations[-1] == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(np.abs(axes[:, -1]), [0, 1, 0, 0, 0], atol=1e-9)
