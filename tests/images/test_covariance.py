"""Covariance descriptors: against the literal definition, pyriemann, and what must not change them."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pyriemann.geometry.base import logm
from pyriemann.geometry.tangentspace import log_map_logeuclid, upper

from samekind.images.covariance import SCALES, SIZE, Covariance, basic_features, integral_of_moments
from tests import oracle
from tests.images.pictures import face_like, random_regions

RIDGE = 1e-3


@pytest.fixture(scope="module")
def picture():
    return face_like()


@pytest.fixture(scope="module")
def regions():
    return random_regions(150, 110, 150)


@pytest.fixture(scope="module")
def covariances(picture, regions):
    """Directly, by numpy, in float64."""
    features, found = basic_features(picture), []
    for top, left, h, w in regions:
        inside = features[top : top + h, left : left + w].reshape(-1, 9).copy()
        inside[:, 0] *= np.sqrt(12 / (w**2 - 1))
        inside[:, 1] *= np.sqrt(12 / (h**2 - 1))
        found.append(np.cov(inside.T, bias=True) + RIDGE * np.eye(9))
    return np.array(found)


def test_it_is_the_literal_definition():
    picture = face_like(40, 30)
    regions = random_regions(40, 30, 5, seed=1)
    covariances = [oracle.region_covariance(picture, region, SCALES) for region in regions.tolist()]
    expected = [oracle.tangent_vector(C + RIDGE * np.eye(9)) for C in covariances]
    np.testing.assert_allclose(Covariance(RIDGE).describe(picture, regions), expected, atol=3e-4)


def test_it_is_pyriemanns_tangent_vector_at_the_identity(picture, regions, covariances):
    """`upper` takes the upper triangle with sqrt(2) off the diagonal, as we do."""
    tangents = log_map_logeuclid(covariances, np.eye(9))
    np.testing.assert_allclose(tangents, logm(covariances), atol=1e-10)
    np.testing.assert_allclose(Covariance(RIDGE).describe(picture, regions), upper(tangents), atol=5e-4)


def test_euclidean_distances_are_log_euclidean(picture, regions, covariances):
    from pyriemann.geometry.distance import distance_logeuclid

    D = Covariance(RIDGE).describe(picture, regions)
    ours = np.linalg.norm(D[:75] - D[75:], axis=1)
    np.testing.assert_allclose(ours, distance_logeuclid(covariances[:75], covariances[75:]), rtol=1e-3)


def test_position_has_variance_one(picture, regions):
    """diag(exp(log C)) of x and y is 1 + ridge, whatever the region."""
    D = Covariance(RIDGE).describe(picture, regions).astype(float)
    logs = np.zeros((len(D), 9, 9))
    rows, columns = np.triu_indices(9)
    logs[:, rows, columns] = logs[:, columns, rows] = D / np.where(rows == columns, 1, np.sqrt(2))
    eigenvalues, V = np.linalg.eigh(logs)
    C = (V * np.exp(eigenvalues)[:, None]) @ V.transpose(0, 2, 1)
    np.testing.assert_allclose(C[:, [0, 1], [0, 1]], 1 + RIDGE, rtol=1e-4)


def test_a_flat_region_has_only_its_position():
    D = Covariance(RIDGE).describe(np.full((30, 40), 0.3, np.float32), np.array([[2, 3, 20, 30]]))[0]
    expected = np.zeros((9, 9))
    np.fill_diagonal(expected, np.log([1 + RIDGE] * 2 + [RIDGE] * 7))
    np.testing.assert_allclose(D, oracle_upper(expected), atol=1e-4)


def oracle_upper(M):
    return np.array([M[i, j] * (1 if i == j else np.sqrt(2)) for i in range(9) for j in range(i, 9)])


def test_brightness_does_not_matter(picture, regions):
    dark, bright = (Covariance(RIDGE).describe(0.5 * picture + shift, regions) for shift in (0.0, 0.4))
    np.testing.assert_allclose(dark, bright, atol=1e-3)


def test_it_moves_with_the_picture(picture):
    regions = random_regions(100, 80, 30) + np.array([3, 2, 0, 0])
    moved = np.roll(picture, (5, 7), axis=(0, 1))
    # The picture's border is out of reach of these regions.
    near, far = Covariance().describe(picture, regions), Covariance().describe(moved, regions + np.array([5, 7, 0, 0]))
    np.testing.assert_allclose(near, far, atol=5e-4)


def test_mirrored_is_the_description_of_the_mirror_image(picture, regions):
    elsewhere = regions.copy()
    elsewhere[:, 1] = 110 - regions[:, 1] - regions[:, 3]
    expected = Covariance().describe(picture[:, ::-1], regions)
    found = Covariance().mirrored(Covariance().describe(picture, elsewhere))
    np.testing.assert_allclose(found, expected, atol=5e-4)
    assert np.abs(found - Covariance().describe(picture, elsewhere)).max() > 0.1


def test_a_region_does_not_depend_on_its_company(picture, regions):
    together = Covariance().describe(picture, regions)
    alone = np.concatenate([Covariance().describe(picture, regions[k : k + 1]) for k in range(len(regions))])
    np.testing.assert_array_equal(together, alone)


def test_moments_are_sums_of_products():
    features = basic_features(face_like(6, 5))
    moments = integral_of_moments(features)[-1, -1]
    flat = features.reshape(-1, 9)
    np.testing.assert_allclose(moments[:9], flat.sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(moments[9:], (flat.T @ flat)[np.triu_indices(9)], rtol=1e-12)
    assert len(moments) == 9 + SIZE


@pytest.mark.parametrize("ridge", [0, -1, np.nan, np.inf])
def test_a_ridge_that_cannot_be_is_refused(ridge):
    with pytest.raises(ValueError, match="ridge"):
        Covariance(ridge)


DIGESTS = """
import hashlib
from samekind.images.covariance import Covariance
from samekind.images.slbp import SoftLBP
from tests.images.pictures import face_like, random_regions
for family in (Covariance(), SoftLBP()):
    print(hashlib.sha256(family.describe(face_like(), random_regions(150, 110, 500)).tobytes()).hexdigest())
"""


@pytest.mark.slow
def test_the_process_that_compiles_and_later_ones_give_the_same_bytes(tmp_path):
    """Or a run that is gone on with would not end with the bytes of one that was not stopped."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", DIGESTS]
    root = Path(__file__).parents[2]
    first, second = (
        subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    )
    assert len(first.split()) == 2
    assert first == second
