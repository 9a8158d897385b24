"""The demo's gallery: some of the pictures of every digit, to be searched; the others are there to be tried."""

import shutil
from pathlib import Path

from samekind.demo.study import Study
from samekind.gallery import Gallery
from samekind.images.listing import list_images
from samekind.images.load import load_image
from samekind.images.save import png_bytes

KEPT = 60  # pictures of each digit
NAME = "digits.gallery"


def write_gallery(folder: Path, study: Study) -> Path:
    """folder/digits.gallery, in the place of an earlier one."""
    path = folder / NAME
    if path.exists():
        Gallery.open(path, read_only=True).close()  # whatever else has this name is not ours to remove
        shutil.rmtree(path)
    files = [file for file in list_images(study.pictures, labelled=True) if int(file.path.stem) < KEPT]
    metric = study.metric
    with Gallery.create(path, metric) as gallery:
        gallery.add(
            metric.encode([file.path for file in files]),
            label=[file.label for file in files],
            name=[file.name for file in files],
            thumbnails=[png_bytes(load_image(file.path).grey) for file in files],
            model=metric,
        )
    return path
