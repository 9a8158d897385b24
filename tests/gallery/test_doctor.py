"""The doctor finds what was put in, says nothing of a healthy gallery, and its passes over pairs are exact."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samekind import Metric
from samekind.gallery import Gallery, GalleryError
from samekind.gallery.doctor import MOST_OF_A_LABEL
from samekind.gallery.pairs import TileSizes, nearest_others, pairs_within
from samekind.model.calibration import Calibration
from samekind.model.similarity import Similarity

WIDTH = 24
N_LABELS, PER_LABEL = 30, 6


def no_progress(done, total): ...


def people(n_labels=N_LABELS, per_label=PER_LABEL, seed=0):
    """Codes of people far apart, and their labels."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((n_labels, WIDTH))
    codes = np.repeat(centres, per_label, axis=0) + 0.5 * rng.standard_normal((n_labels * per_label, WIDTH))
    return codes.astype(np.float32), np.repeat([f"person {at:02d}" for at in range(n_labels)], per_label)


def calibration_of(codes, labels, distance):
    """Log-odds that fall from 6 at the median of same-class distances to -6 at a low quantile of the others."""
    rows = codes.astype(np.float64)
    distances = np.array([distance(np.tile(row, (len(rows), 1)), rows) for row in rows])
    same, others = labels[:, None] == labels, ~np.eye(len(rows), dtype=bool)
    low, high = np.median(distances[same & others]), np.quantile(distances[~same], 0.05)
    knots = (low, (low + high) / 2, high)
    rates = (1e-3, 1e-1)
    counts = 60, len(rows), same.sum().item(), (~same).sum().item()
    return Calibration(knots, (6, 0, -6), rates, tuple(np.quantile(distances[~same], rates)), (), *counts, "made")


CALIBRATION = calibration_of(*people(60, seed=7), lambda a, b: ((a - b) ** 2).sum(axis=1))


def examined(tmp_path, codes, labels, **options):
    with Gallery.create(tmp_path / "g", length=WIDTH) as gallery:
        gallery.add(codes, label=list(labels), name=[str(at) for at in range(len(codes))])
        return gallery.doctor(calibration=CALIBRATION, **options)


def test_a_healthy_gallery(tmp_path):
    found = examined(tmp_path, *people())
    assert found.healthy
    assert (found.n_records, found.n_labels) == (N_LABELS * PER_LABEL, N_LABELS)


def test_duplicates_are_groups_of_nearly_equal_codes(tmp_path):
    codes, labels = people()
    codes[50], codes[51], codes[9] = codes[3], codes[3], codes[8] + np.float32(1e-3)
    labels[[50, 51]] = labels[3]
    found = examined(tmp_path, codes, labels)
    assert [[int(record.name) for record in each.records] for each in found.duplicates] == [[3, 50, 51], [8, 9]]
    assert found.duplicates[0].distance == 0


def test_one_person_under_two_labels(tmp_path):
    codes, labels = people()
    labels[[15, 16, 17]] = "an alias"
    found = examined(tmp_path, codes, labels)
    assert [set(each.labels) for each in found.same] == [{"an alias", "person 02"}]
    (pair,) = found.same
    own, other = codes[15:18].astype(np.float64), codes[12:15].astype(np.float64)
    between = ((own[:, None] - other[None]) ** 2).sum(axis=2)
    assert pair.distance == pytest.approx(between.mean(), rel=1e-6)
    assert sorted(pair.sizes) == [3, 3]
    nearest = {int(record.name) for record in pair.nearest}
    a, b = np.unravel_index(between.argmin(), between.shape)
    assert nearest == {15 + a, 12 + b}


def test_labels_of_many_entries_need_less_evidence_each(tmp_path):
    codes, labels = people()
    labels[[15, 16, 17]] = "an alias"
    strict = dataclasses.replace(CALIBRATION, tail_rates=(), tail_thresholds=())
    with Gallery.create(tmp_path / "g", length=WIDTH) as gallery:
        gallery.add(codes, label=list(labels))
        found = gallery.doctor(calibration=strict, most=9)
        assert [set(each.labels) for each in found.same] == [{"an alias", "person 02"}]
        gallery.remove([16, 17, 13, 14])
        assert not gallery.doctor(calibration=strict).same


def test_two_people_under_one_label(tmp_path):
    codes, labels = people()
    labels[labels == "person 05"] = "person 04"
    found = examined(tmp_path, codes, labels)
    (mixed,) = found.mixed
    assert mixed.label == "person 04"
    assert sorted([int(record.name) for record in group] for group in mixed.groups) == [
        list(range(24, 30)),
        list(range(30, 36)),
    ]


def test_an_entry_of_another_person_is_an_outlier_and_its_own_person_is_named(tmp_path):
    codes, labels = people()
    labels[36] = "person 20"
    found = examined(tmp_path, codes, labels)
    (outlier,) = found.outliers
    assert (outlier.record.name, outlier.kind) == ("36", "label")
    assert outlier.nearest.label == "person 06"
    assert outlier.distance > outlier.nearest_distance


def test_an_entry_far_from_all_is_isolated_even_without_a_label(tmp_path):
    codes, labels = people()
    codes = np.concatenate([codes, np.full((1, WIDTH), 10, np.float32)])
    found = examined(tmp_path, codes, [*labels, None])
    assert [(each.record.name, each.kind) for each in found.outliers] == [("180", "isolated")]


def test_only_the_clearest_are_returned_and_all_are_counted(tmp_path):
    codes, labels = people()
    codes[1::PER_LABEL] = codes[::PER_LABEL]
    found = examined(tmp_path, codes, labels, most=4)
    assert len(found.duplicates) == 4
    assert found.counts["duplicates"] == N_LABELS
    assert found.to_json()["counts"] == found.counts


def test_a_label_that_is_too_large_is_named(tmp_path):
    codes, labels = people()
    crowd, _ = people(1, MOST_OF_A_LABEL + 1, seed=1)
    found = examined(tmp_path, np.concatenate([codes, crowd]), [*labels, *["crowd"] * len(crowd)])
    assert found.not_split == ("crowd",)


@pytest.mark.parametrize("kind", ["mirror", "similarity"])
def test_codes_with_a_number_each(tmp_path, kind):
    rng = np.random.default_rng(0)
    if kind == "mirror":
        model = Metric.linear(np.eye(WIDTH), np.arange(WIDTH), WIDTH).with_mirror("distances")
    else:
        similarity = Similarity(np.eye(WIDTH), np.zeros(WIDTH), np.full(WIDTH, 0.3))
        model = Metric.linear(np.zeros((0, WIDTH)), np.arange(WIDTH), WIDTH, similarity=similarity)

    def coded(X):
        codes = model.transform(X.astype(np.float64)).astype(np.float32)
        return np.column_stack([codes, rng.uniform(0.1, 0.3, len(X)).astype(np.float32)]) if kind == "mirror" else codes

    learned, names = people(60, seed=7)
    judged = calibration_of(coded(learned), names, model.distance_function)
    X, labels = people()
    X[9], labels[36] = X[8], "person 20"
    labels[[15, 16, 17]] = "an alias"
    with Gallery.create(tmp_path / "g", model.with_calibration(judged)) as gallery:
        gallery.add(coded(X), label=list(labels), name=[str(at) for at in range(len(X))])
        found = gallery.doctor()
    assert [[record.name for record in each.records] for each in found.duplicates] == [["8", "9"]]
    assert [set(each.labels) for each in found.same] == [{"an alias", "person 02"}]
    assert [(each.record.name, each.nearest.label) for each in found.outliers] == [("36", "person 06")]


def test_empty_and_tiny_galleries(tmp_path):
    for n in range(3):
        codes, labels = people()
        with Gallery.create(tmp_path / str(n), length=WIDTH) as gallery:
            gallery.add(codes[:n], label=list(labels[:n]))
            assert gallery.doctor(calibration=CALIBRATION).n_records == n


def test_what_the_doctor_needs(tmp_path):
    with Gallery.create(tmp_path / "g", length=WIDTH) as gallery:
        with pytest.raises(GalleryError, match="has no calibration"):
            gallery.doctor()
        with pytest.raises(GalleryError, match="share of labels"):
            gallery.doctor(calibration=CALIBRATION, wrong=0.7)
        with pytest.raises(GalleryError, match="share of the mean"):
            gallery.doctor(calibration=CALIBRATION, duplicate=0)


@st.composite
def rows(draw):
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n, width = draw(st.integers(0, 40)), draw(st.sampled_from([1, 3, 9]))
    kind = draw(st.sampled_from(["ordinary", "few values", "huge", "tiny"]))
    vectors = rng.standard_normal((n, width)).astype(np.float32)
    if kind == "few values":
        vectors = np.round(vectors)
    vectors *= np.float32({"huge": 1e30, "tiny": 1e-30}.get(kind, 1))
    offsets = rng.uniform(-1, 1, n) if draw(st.booleans()) else np.zeros(n)
    return vectors, offsets


def all_distances(vectors, offsets):
    from samekind.kernels.nearest import distances_to

    n = len(vectors)
    found = [
        distances_to(vectors, offsets, vector.astype(np.float64)) + own
        for vector, own in zip(vectors, offsets, strict=True)
    ]
    return np.array(found).reshape(n, n)


@given(rows(), st.floats(0, 1))
def test_pairs_within_limits_are_those_of_all_distances(given_rows, share):
    vectors, offsets = given_rows
    distances = all_distances(vectors, offsets)
    limit = float(np.quantile(distances, share)) if len(vectors) else 0.0
    pairs, found = pairs_within(vectors, offsets, np.full(len(vectors), limit), no_progress)
    below = np.triu(distances <= limit, 1)
    # Offsets are added in another order: what is as near as rounding to the limit may be in or out.
    near = np.abs(distances - limit) <= 1e-12 * (1 + np.abs(distances))
    reported = np.zeros_like(below)
    reported[pairs[:, 0], pairs[:, 1]] = True
    assert ((reported == below) | near).all()
    assert np.allclose(found, distances[pairs[:, 0], pairs[:, 1]], rtol=1e-12)


@given(rows(), st.floats(0, 1))
def test_a_forest_connects_what_all_pairs_connect(given_rows, share):
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    vectors, offsets = given_rows
    n = len(vectors)
    limit = float(np.quantile(all_distances(vectors, offsets), share)) if n else 0.0

    def components(pairs):
        graph = coo_array((np.ones(len(pairs), bool), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
        return connected_components(graph, directed=False)

    every, _ = pairs_within(vectors, offsets, np.full(len(vectors), limit), no_progress)
    forest, _ = pairs_within(vectors, offsets, np.full(len(vectors), limit), no_progress, forest=True)
    if n:
        count, labels = components(every)
        assert count == n - len(forest)
        assert np.array_equal(labels, components(forest)[1])


@given(rows())
def test_nearest_others_are_those_of_all_distances(given_rows):
    vectors, offsets = given_rows
    distances = all_distances(vectors, offsets)
    np.fill_diagonal(distances, np.inf)
    found, places = nearest_others(vectors, offsets, no_progress, 1)
    if len(vectors) > 1:
        assert np.allclose(found, distances.min(axis=1), rtol=1e-12)
        assert np.allclose(distances[np.arange(len(vectors)), places], found, rtol=1e-12)
    else:
        assert np.isinf(found).all()


@pytest.mark.parametrize("tile", [3, 16])
def test_pairs_over_many_tiles(tile):
    sizes = TileSizes(tile, queries=5)
    rng = np.random.default_rng(1)
    vectors, offsets = rng.standard_normal((50, 4)).astype(np.float32), rng.uniform(-1, 1, 50)
    distances = all_distances(vectors, offsets)
    limit = float(np.median(distances))
    pairs, _ = pairs_within(vectors, offsets, np.full(len(vectors), limit), no_progress, sizes=sizes)
    assert sorted(map(tuple, pairs.tolist())) == sorted(zip(*np.nonzero(np.triu(distances <= limit, 1)), strict=True))
    seen = []
    np.fill_diagonal(distances, np.inf)
    found, _ = nearest_others(vectors, offsets, lambda *at: seen.append(at), 1, sizes=sizes)
    assert np.allclose(found, distances.min(axis=1))
    assert seen[-1] == (50, 50)


def test_limits_that_tell_nothing_apart_are_refused():
    with pytest.raises(GalleryError, match="lower ones"):
        pairs_within(
            np.zeros((30, 2), np.float32), np.zeros(30), np.ones(30), no_progress, sizes=TileSizes(most_pairs=100)
        )
