"""Pictures to codes: the same as extracting everything and transforming it."""

import numpy as np
import pytest

from samekind import EnsembleMetric, Metric
from samekind.extraction import extract
from samekind.images.listing import list_images
from samekind.images.load import ImageError, load_image
from samekind.kernels.flips import flip_free_codes, flip_free_distances
from samekind.kernels.lengths import normalised
from tests.picture_folders import small_extractor, write_pictures


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return write_pictures(tmp_path_factory.mktemp("pictures") / "it", 8)


@pytest.fixture(scope="module")
def files(pictures):
    return list_images(pictures, labelled=True)


@pytest.fixture(scope="module")
def store(files, tmp_path_factory):
    return extract(files, tmp_path_factory.mktemp("stores") / "store", small_extractor())


@pytest.fixture(scope="module")
def model(store):
    learner = EnsembleMetric(max_groups=4, n_components=6, normalise_groups="scale", normalise="none", cv=None)
    return learner.fit(store, store.labels)


@pytest.fixture(scope="module")
def features(files):
    """Everything, of every picture, in float32."""
    extractor = small_extractor()
    align = extractor.aligner()
    return np.stack([extractor.features(align(load_image(file.path), file.name).picture) for file in files])


def test_encoding_is_extracting_everything_then_transforming(model, files, features):
    codes = model.metric_.encode([file.path for file in files])
    assert codes.dtype == np.float32
    np.testing.assert_allclose(codes, model.metric_.transform(features), atol=2e-4)


def test_encoding_is_transforming_the_store_to_float16(model, store, files):
    codes = model.metric_.encode([file.path for file in files])
    scale = np.abs(codes).max()
    np.testing.assert_allclose(codes, model.transform(store), atol=0.01 * scale)


def test_only_the_chosen_regions_are_in_the_model(model):
    chosen = sum(len(family["regions"]) for family in model.metric_.extractor["families"])
    assert chosen == len(model.selected_groups_) < 50
    assert len(model.metric_.columns) == model.metric_.encoder().extractor.n_features


def test_a_saved_model_encodes_alike(model, files, tmp_path):
    model.metric_.save(tmp_path / "model")
    again = Metric.load(tmp_path / "model")
    paths = [str(file.path) for file in files[:5]]
    np.testing.assert_array_equal(again.encode(paths), model.metric_.encode(paths))


def test_arrays_are_as_good_as_files(model, files):
    arrays = [load_image(file.path).grey for file in files[:3]]
    expected = model.metric_.encode([file.path for file in files[:3]])
    np.testing.assert_allclose(model.metric_.encode(arrays), expected, atol=1e-5)
    np.testing.assert_allclose(model.metric_.encode(np.stack(arrays)), expected, atol=1e-5)
    np.testing.assert_allclose(model.metric_.encode(arrays[0]), expected[:1], atol=1e-5)
    colours = (255 * np.repeat(arrays[0][..., None], 3, axis=2)).round().astype(np.uint8)
    np.testing.assert_allclose(model.metric_.encode(colours), expected[:1], atol=1e-3)


def test_the_number_of_threads_does_not_matter(model, files):
    paths = [file.path for file in files]
    np.testing.assert_array_equal(model.metric_.encode(paths, n_jobs=1), model.metric_.encode(paths, n_jobs=3))


def test_flip_free_codes_are_those_of_picture_and_mirror_image(model, files):
    greys = [load_image(file.path).grey for file in files[:6]]
    codes = model.metric_.with_mirror("distances").encode(greys)
    Z, mirrored = (model.metric_.encode([grey[:, ::step] for grey in greys]) for step in (1, -1))
    assert codes.shape == (6, Z.shape[1] + 1)
    np.testing.assert_allclose(codes, flip_free_codes(Z, mirrored), atol=2e-3)


@pytest.mark.parametrize("normalise", ["none", "root", "unit"])
def test_flip_free_distances_are_means_of_four_of_the_metric(model, files, normalise):
    metric = model.metric_.with_normalise(normalise)
    greys = [load_image(file.path).grey for file in files[:6]]
    encoder = metric.with_mirror("distances").encoder()
    features = np.stack([encoder.features(grey, "it") for grey in greys]).astype(np.float64)
    four = [metric.pair_distance(np.stack([features[:3, i], features[3:, j]], axis=1)) for i in (0, 1) for j in (0, 1)]
    codes = metric.with_mirror("distances").encode(greys)
    distances = metric.with_mirror("distances").code_distance(codes[:3], codes[3:])
    np.testing.assert_allclose(distances, np.mean(four, axis=0), rtol=1e-3)
    np.testing.assert_array_equal(distances, flip_free_distances(codes[:3], codes[3:]))


@pytest.mark.parametrize("normalise", ["root", "unit"])
def test_encoding_divides_codes_by_their_lengths(model, files, normalise):
    paths = [file.path for file in files[:6]]
    plain = model.metric_.encode(paths)
    lengths = np.linalg.norm(plain, axis=1, keepdims=True)
    expected = plain / (lengths if normalise == "unit" else np.sqrt(lengths))
    np.testing.assert_allclose(model.metric_.with_normalise(normalise).encode(paths), expected, atol=1e-5)


def test_a_picture_and_its_mirror_image_have_one_flip_free_code(model, files):
    grey = load_image(files[0].path).grey
    a, b = model.metric_.with_mirror("distances").encode([grey, grey[:, ::-1]])
    np.testing.assert_allclose(a, b, atol=2e-3)


@pytest.mark.parametrize("normalise", ["none", "root", "unit"])
def test_codes_of_mirror_means_are_means_of_codes_normalised_after(model, files, normalise):
    """The way to a code is linear, up to lengths."""
    greys = [load_image(file.path).grey for file in files[:6]]
    Z, mirrored = (model.metric_.encode([grey[:, ::step] for grey in greys]) for step in (1, -1))
    metric = model.metric_.with_normalise(normalise).with_mirror("mean")
    codes = metric.encode(greys)
    np.testing.assert_allclose(codes, normalised((Z + mirrored) / 2, normalise), atol=2e-3)
    again = metric.encode([grey[:, ::-1] for grey in greys])
    np.testing.assert_allclose(codes, again, atol=2e-3)
    assert np.abs(Z - mirrored).max() > 0.1


def test_nothing_to_encode_gives_no_codes(model):
    for mirror, more in (("none", 0), ("mean", 0), ("distances", 1)):
        codes = model.metric_.with_mirror(mirror).encode([])
        assert codes.shape == (0, model.metric_.n_components + more)


def test_a_picture_that_cannot_be_used_says_which(model, files, tmp_path):
    with pytest.raises(ImageError, match=r"nothing.png: there is no such file"):
        model.metric_.encode([files[0].path, tmp_path / "nothing.png"])
    with pytest.raises(ImageError, match=r"1: the picture is 20 x 20"):
        model.metric_.encode([np.zeros((60, 44)), np.zeros((20, 20))])


def test_a_damaged_picture_that_can_be_used_brings_a_warning(model, files, tmp_path):
    import cv2

    cv2.imwrite(str(tmp_path / "it.jpg"), cv2.imread(str(files[0].path)))
    whole = (tmp_path / "it.jpg").read_bytes()
    (tmp_path / "it.jpg").write_bytes(whole[: len(whole) * 3 // 4])
    with pytest.warns(UserWarning, match=r"it.jpg: damaged"):
        assert model.metric_.encode(tmp_path / "it.jpg").shape == (1, model.metric_.n_components)


def test_an_extractor_of_other_columns_is_refused(model):
    from dataclasses import replace

    other = replace(model.metric_, extractor=small_extractor().to_json())
    with pytest.raises(ValueError, match="do not belong together"):
        other.encode([])


@pytest.mark.parametrize("mirror", ["none", "mean", "distances"])
@pytest.mark.parametrize("normalise", ["none", "unit"])
def test_the_threshold_of_a_model_is_for_codes_as_it_encodes(store, files, mirror, normalise):
    """Codes of the store, mirror images as the model counts them, are those of the files."""
    from samekind.estimators.use import codes_in_use
    from samekind.evaluation import best_threshold, label_pairs

    learner = EnsembleMetric(max_groups=4, n_components=6, mirror=mirror, normalise=normalise, cv=None)
    metric = learner.set_params(joint__max_iter=20, joint__tol=0.1).fit(store, store.labels).metric_
    assert (metric.mirror, metric.normalise) == (mirror, normalise)
    of_store = codes_in_use(metric, store, np.arange(len(store)))
    codes = metric.encode([file.path for file in files])
    assert codes.shape == of_store.shape == (len(files), metric.n_components + (mirror == "distances"))
    np.testing.assert_allclose(codes, of_store, atol=0.02 * np.abs(codes).max())
    pairs, same = label_pairs(store.labels)
    distances = metric.code_distance(of_store[pairs[:, 0]], of_store[pairs[:, 1]])
    assert metric.threshold == pytest.approx(best_threshold(distances, same, strategy="balanced"))
