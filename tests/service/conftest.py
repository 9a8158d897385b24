"""A small model, a gallery and the service over both."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from samekind import EnsembleMetric, Metric
from samekind.evaluation import calibrate
from samekind.extraction import extract
from samekind.gallery import Gallery
from samekind.images.listing import list_images
from samekind.images.load import load_image
from samekind.images.save import png_bytes
from tests.picture_folders import small_extractor, write_pictures

TOKEN = "a token of this test 0123"


@dataclass(frozen=True)
class Home:
    """Pictures of twelve people; of the first ten, the first three pictures are in the gallery."""

    folder: Path
    model: Path
    gallery: Path

    @property
    def metric(self):
        return Metric.load(self.model)

    def picture(self, person, number):
        return self.folder / "pictures" / f"person {person:02d}" / f"{number}.png"


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    pictures = write_pictures(folder / "pictures", n_labels=12, per_label=4)
    files = list_images(pictures, labelled=True)
    store = extract(files, folder / "store", small_extractor())
    learner = EnsembleMetric(max_groups=8, n_components=6, normalise="none", cv=None, compare_by="distance")
    learned = learner.fit(store, store.labels).metric_.with_mirror("mean")
    metric = learned.with_calibration(calibrate(learned.encode([file.path for file in files]), store.labels))
    metric.save(folder / "model.safetensors")
    kept = [file for file in files if file.label < "person 10" and file.path.stem < "3"]
    with Gallery.create(folder / "gallery", metric) as gallery:
        gallery.add(
            metric.encode([file.path for file in kept]),
            label=[file.label for file in kept],
            name=[file.name for file in kept],
            source=[str(file.path) for file in kept],
            thumbnails=[png_bytes(load_image(file.path).grey) for file in kept],
        )
    return Home(folder, folder / "model.safetensors", folder / "gallery")


@pytest.fixture
def own(home, tmp_path):
    """The same with a gallery of this test's own."""
    shutil.copytree(home.gallery, tmp_path / "gallery")
    return Home(home.folder, home.model, tmp_path / "gallery")
