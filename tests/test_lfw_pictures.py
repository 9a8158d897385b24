"""LFW-a, if it lies beside the repository: 13,233 photographs, one of them cut off, two of them under two names."""

from pathlib import Path

import numpy as np
import pytest

from samekind import EnsembleMetric, Extractor, extract, list_images

IMAGES = Path(__file__).parents[2] / "shared" / "data" / "lfw-a" / "images"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not IMAGES.is_dir(), reason="no ../shared/data/lfw-a beside the repository"),
]


@pytest.fixture(scope="module")
def files():
    return list_images(IMAGES, labelled=True)


@pytest.fixture(scope="module")
def store(files, tmp_path_factory):
    """All of it, in few regions of one family."""
    return extract(files, tmp_path_factory.mktemp("lfw") / "store", Extractor.over(["cov"], n_regions=12))


def test_every_picture_is_in_the_store(store):
    assert store.complete
    assert len(store) == 13_233
    assert len(set(store.labels.tolist())) == 5_749
    assert store.skipped == {}


def test_the_picture_that_is_cut_off_is_used_and_reported(store):
    assert list(store.notes) == ["Franz_Muentefering/Franz_Muentefering_0001.jpg"]
    assert "2 of 250 rows are wrong" in store.notes["Franz_Muentefering/Franz_Muentefering_0001.jpg"][0]


def test_pictures_under_two_names_are_reported(store):
    assert store.duplicates() == [
        ("Bart_Hendricks/Bart_Hendricks_0001.jpg", "Ricky_Ray/Ricky_Ray_0001.jpg"),
        ("Carlos_Beltran/Carlos_Beltran_0001.jpg", "Raul_Ibanez/Raul_Ibanez_0001.jpg"),
    ]


def test_codes_of_files_are_codes_of_the_store(store, files):
    """Learned from a few dozen people; the store's float16 is all that lies between the two."""
    people, counts = np.unique(store.labels, return_counts=True)
    rows = np.isin(store.labels, people[(counts >= 8) & (counts <= 9)])
    model = EnsembleMetric(max_groups=6, n_components=20).fit(store, store.labels, rows=rows)
    some = np.flatnonzero(rows)[::25]
    codes = model.metric_.encode([IMAGES / name for name in store.image_ids[some]])
    np.testing.assert_allclose(codes, model.transform(store, rows=some), atol=0.02 * np.abs(codes).max())
