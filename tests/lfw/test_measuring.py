"""Codes of pictures under several metrics, in one pass."""

import numpy as np

from samekind import Metric
from samekind.images.listing import list_images
from samekind.lfw.measuring import codes_of_pictures


def test_codes_of_pictures_and_mirror_images_are_those_of_each_metric_alone(lfw):
    files = list_images(lfw.images, labelled=True)[:5]
    names = "step1-cov", "step2-cov+slbp"
    metrics = {name: Metric.load(lfw.work / "view1" / f"{name}.safetensors") for name in names}
    codes = codes_of_pictures(metrics, files)
    for name, metric in metrics.items():
        original, mirrored = codes[name]
        assert np.allclose(original, metric.encode([file.path for file in files]), rtol=1e-4, atol=1e-5)
        flip_free = metric.encode([file.path for file in files], flip_free=True)
        assert np.allclose((original + mirrored) / 2, flip_free[:, :-1], rtol=1e-4, atol=1e-5)
        assert not np.allclose(original, mirrored, atol=1e-3)
