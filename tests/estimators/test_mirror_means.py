"""`mirror="mean"`: all is learned from means of pictures and mirror images, as pictures are then compared."""

from itertools import pairwise

import numpy as np
import pytest

from samekind import EnsembleMetric, SparseBlockMetric, TwoCovariance
from samekind.estimators.use import as_learned_from, codes_in_use, groups_with_mirror
from samekind.extraction import extract, mirror_means, mirrored_groups
from samekind.images.listing import list_images
from samekind.store import ArrayStore, FeatureGroups
from tests.picture_folders import small_extractor, write_pictures

pytestmark = pytest.mark.filterwarnings("ignore:On classes left out, plain Euclidean distance:UserWarning")
SETTINGS = {
    "max_groups": 3,
    "n_components": 4,
    "normalise_groups": "unit",
    "weigh": 0.5,
    "normalise": "root",
    "compare_by": "sum",
    "similarity": TwoCovariance(shrinkage=0.3),
    "cv": None,
    "random_state": 0,
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    files = list_images(write_pictures(folder / "pictures", n_labels=5, per_label=4), labelled=True)
    return extract(files, folder / "store", small_extractor(16)), [file.path for file in files]


@pytest.fixture(scope="module")
def model(place):
    store, _ = place
    return EnsembleMetric(mirror="mean", selection=SparseBlockMetric(whiten=8), **SETTINGS).fit(store, store.labels)


def test_both_steps_learn_what_they_learn_from_the_means_given_as_an_array(place, model):
    """One group of each mirror pair, its columns those of the means."""
    store, _ = place
    means = mirror_means(store)
    groups = groups_with_mirror(store, "mean")
    panels = [means.panel([k], np.arange(len(store))) for k in groups]
    ends = np.cumsum([0, *(panel.shape[1] for panel in panels)])
    columns = [np.arange(a, b) for a, b in pairwise(ends)]
    array = ArrayStore(np.hstack(panels), FeatureGroups.parse(columns, int(ends[-1])))
    families = ["cov" if store.group_sizes[k] == store.group_sizes[0] else "slbp" for k in groups]
    by_hand = EnsembleMetric(families=families, selection=SparseBlockMetric(whiten=8), **SETTINGS)
    by_hand.fit(array, store.labels)
    assert [groups[k] for k in by_hand.selected_groups_] == model.selected_groups_.tolist()
    codes, expected = codes_in_use(model.metric_, store, np.arange(len(store))), by_hand.transform(array)
    np.testing.assert_allclose(codes, expected, rtol=1e-3, atol=1e-3)
    assert model.threshold_ == pytest.approx(by_hand.threshold_, rel=1e-2, abs=1e-2)


def test_one_group_of_each_mirror_pair_may_be_chosen(place, model):
    store, _ = place
    mirrors, usable = mirrored_groups(store), groups_with_mirror(store, "mean")
    assert all(mirrors[k] >= k for k in usable)
    assert {min(k, int(mirrors[k])) for k in range(len(mirrors)) if mirrors[k] >= 0} == set(usable)
    assert set(model.selected_groups_) <= set(usable)
    assert set(groups_with_mirror(store, "distances")) == {k for k in range(len(mirrors)) if mirrors[k] >= 0}
    assert groups_with_mirror(mirror_means(store), "mean") == usable


def test_codes_of_pictures_are_those_of_the_store(place, model):
    store, paths = place
    encoded = model.metric_.encode(paths)
    assert model.metric_.mirror == "mean"
    np.testing.assert_allclose(codes_in_use(model.metric_, store, np.arange(len(store))), encoded, rtol=1e-2, atol=1e-2)
    distances = model.metric_.code_distance(encoded[:-1], encoded[1:])
    assert np.isfinite(distances).all()


def test_means_are_not_taken_twice(place, model):
    store, _ = place
    means = as_learned_from(store, "mean")
    assert as_learned_from(means, "mean") is means
    assert as_learned_from(store, "none") is store
    rows = np.arange(5)
    np.testing.assert_array_equal(codes_in_use(model.metric_, means, rows), codes_in_use(model.metric_, store, rows))


def test_data_without_pictures_are_refused():
    with pytest.raises(ValueError, match="for stores of pictures"):
        EnsembleMetric(mirror="mean").fit(np.random.default_rng(0).standard_normal((8, 3)), np.repeat([0, 1], 4))
