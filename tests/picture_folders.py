"""Folders of small labelled pictures, as a user would have them."""

import hashlib

import cv2
import numpy as np

from samekind.images.align import Frame
from samekind.images.extractor import Extractor
from tests.images.pictures import face_like

SIZE = Frame(40, 56)


def small_extractor(n_regions=25, **options):
    return Extractor.over(n_regions=n_regions, frame=SIZE, **options)


def write_pictures(folder, n_labels=6, per_label=4, *, height=60, width=44, first=0):
    """folder/label/number.png: a label is a picture, its images are noisy, shifted versions of it."""
    for label in range(first, first + n_labels):
        rng, face = np.random.default_rng(label), face_like(height + 4, width + 4, seed=label)
        (folder / f"person {label:02d}").mkdir(parents=True, exist_ok=True)
        for number in range(per_label):
            down, across = rng.integers(0, 5, 2)
            picture = 0.8 * face[down : down + height, across : across + width]
            picture = picture + 0.02 * rng.standard_normal(picture.shape) + rng.uniform(0, 0.2)
            pixels = np.clip(255 * picture, 0, 255).astype(np.uint8)
            cv2.imwrite(str(folder / f"person {label:02d}" / f"{number}.png"), pixels)
    return folder


def bytes_of(store):
    """File -> a digest of its bytes, for all that a store keeps."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(store.iterdir())
        if not path.name.startswith(".")
    }
