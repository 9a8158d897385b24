"""Distances of pictures under several metrics, in one pass."""

from dataclasses import replace

import numpy as np
import pytest

from samekind import Metric
from samekind.images.extractor import Extractor
from samekind.images.listing import list_images
from samekind.lfw.measuring import distances_of_pairs, reading_all
from samekind.lfw.protocol import pair_rows, read_view1


@pytest.mark.parametrize("mirror", ["none", "mean", "distances"])
def test_distances_of_many_metrics_are_those_of_each_metrics_own_encoder(lfw, mirror):
    files = list_images(lfw.images, labelled=True)
    pairs = read_view1(lfw.protocol).test.pairs[::3]
    names = "step1-cov", "step2-slbp", "step2-cov+slbp"
    metrics = {name: Metric.load(lfw.work / "view1" / f"{name}.safetensors") for name in names}
    if mirror == "distances":
        metrics = {name: replace(metric, similarity=None) for name, metric in metrics.items()}
    metrics = {name: metric.with_mirror(mirror) for name, metric in metrics.items()}
    made = distances_of_pairs(metrics, pairs, files)
    rows, _ = pair_rows(pairs, [file.name for file in files])
    for name, metric in metrics.items():
        codes = metric.encode([file.path for file in files])
        expected = metric.code_distance(codes[rows[:, 0]], codes[rows[:, 1]])
        np.testing.assert_allclose(made[name], expected, rtol=1e-3, atol=1e-5)


def test_each_region_is_read_once(lfw):
    names = "step1-cov", "step2-slbp", "step2-cov+slbp"
    extractors = {
        name: Extractor.from_json(Metric.load(lfw.work / "view1" / f"{name}.safetensors").extractor) for name in names
    }
    every, columns = reading_all(extractors)
    assert every.n_groups == 6
    assert {name: len(own) for name, own in columns.items()} == {
        name: extractor.n_features for name, extractor in extractors.items()
    }
