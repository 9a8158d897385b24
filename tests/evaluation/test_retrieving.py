"""Leave-one-out votes are those of going through sorted lists, and one call gives the figures of its parts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.neighbors import KNeighborsClassifier

from samekind.evaluation import (
    count_ranks,
    evaluate_retrieval,
    flip_free_distances,
    knn_error,
    mean_average_precision,
    retrieve,
)
from samekind.kernels.similarity import offset_distances

DISTANCES = [None, flip_free_distances, offset_distances]


def squared(a, b):
    return ((a - b) ** 2).sum(axis=1)


def literal_votes(codes, labels, k, distance, ties, ids):
    """Whether each sample's k nearest, found by sorting a list, vote for another class."""
    wrong = []
    for i in range(len(codes)):
        distances = (distance or squared)(np.tile(codes[i], (len(codes), 1)), codes)
        own = labels == labels[i]
        after = {"first": np.zeros(len(codes)), "best": ~own, "worst": own}[ties]
        listed = sorted((distances[j], after[j], j) for j in range(len(codes)) if ids[j] != ids[i])
        nearest = [j for *_, j in listed[:k]]
        votes = [labels[j] for j in nearest]
        wrong.append(max(votes, key=lambda label: (votes.count(label), -votes.index(label))) != labels[i])
    return float(np.mean(wrong))


@st.composite
def on_a_grid(draw):
    """Many distances are equal; some samples share an id."""
    n = draw(st.integers(6, 12))
    codes = np.array(draw(st.lists(st.integers(-1, 2), min_size=2 * n, max_size=2 * n)), float).reshape(n, 2)
    labels = np.array(draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)))
    ids = np.arange(n)
    ids[draw(st.integers(0, 1))] = 1
    return codes, labels, ids


@given(on_a_grid(), st.sampled_from([1, 2, 3, 4]), st.sampled_from(["first", "best", "worst"]))
def test_votes_are_those_of_sorted_lists_for_any_ties(case, k, ties):
    codes, labels, ids = case
    assert knn_error(codes, labels, k, ids=ids, ties=ties) == literal_votes(codes, labels, k, None, ties, ids)


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("memory_budget", [1, 10**6])
def test_votes_for_every_kind_of_codes(distance, memory_budget):
    rng = np.random.default_rng(0)
    labels = rng.integers(5, size=40)
    codes = rng.standard_normal((5, 4))[labels] + 0.8 * rng.standard_normal((40, 4))
    expected = literal_votes(codes, labels, 3, distance, "first", np.arange(40))
    assert 0 < expected < 1
    assert knn_error(codes, labels, 3, distance=distance, memory_budget=memory_budget) == expected
    assert retrieve(codes, labels, distance=distance).knn_error == expected
    means = count_ranks(codes, labels, distance=distance).figures().means()
    found = mean_average_precision(codes, labels, distance=distance)
    assert found == pytest.approx(means["average_precision"], abs=1e-12)


@pytest.mark.parametrize("distance", DISTANCES)
def test_a_gallery_of_its_own_for_every_kind_of_codes(distance):
    rng = np.random.default_rng(1)
    labels, others = rng.integers(4, size=15), np.repeat(np.arange(4), 8)
    centres = rng.standard_normal((4, 4))
    codes, gallery = (centres[own] + 0.7 * rng.standard_normal((len(own), 4)) for own in (labels, others))
    wrong = []
    for code, label in zip(codes, labels, strict=True):
        distances = (distance or squared)(np.tile(code, (len(gallery), 1)), gallery)
        wrong.append(others[np.argmin(distances)] != label)
    found = knn_error(codes, labels, 1, gallery=gallery, gallery_labels=others, distance=distance)
    assert found == np.mean(wrong)


def test_error_is_that_of_scikit_learn():
    rng = np.random.default_rng(2)
    labels = rng.integers(6, size=80)
    codes = rng.standard_normal((6, 5))[labels] + 0.7 * rng.standard_normal((80, 5))
    found = []
    for i in range(80):
        kept = np.arange(80) != i
        found.append(KNeighborsClassifier(1).fit(codes[kept], labels[kept]).predict(codes[i : i + 1])[0] != labels[i])
    assert knn_error(codes, labels, 1) == np.mean(found)


@pytest.fixture
def judged():
    rng = np.random.default_rng(3)
    labels = np.repeat(np.arange(8), 6)
    centres = rng.standard_normal((8, 5))
    codes = centres[labels] + 0.8 * rng.standard_normal((48, 5))
    others = rng.standard_normal((100, 5))
    return codes, labels, others, evaluate_retrieval(codes, labels, distractors=others, at=(1, 7))


def test_one_call_has_the_figures_of_its_parts(judged):
    codes, labels, others, found = judged
    inside = count_ranks(codes, labels).figures(at=(1, 7))
    injected = count_ranks(codes, labels, distractors=others).figures(at=(1, 7))
    measures = found.measures()
    assert measures["inside"].pop("knn_error").value == knn_error(codes, labels, 3)
    assert {name: own.value for name, own in measures["inside"].items()} == inside.means()
    assert {name: own.value for name, own in measures["injected"].items()} == injected.means()
    assert measures["injected"]["average_precision"].value < measures["inside"]["average_precision"].value
    for own in measures.values():
        assert all(low <= value <= high for value, low, high in own.values())


def test_table_and_json_name_every_figure(judged):
    *_, found = judged
    rows = {row[0]: row[1:] for row in found.table().rows}
    assert {"Leave-one-out 3-NN error", "MAP@R", "Recall at 7", "CMC at 1", "Mean average precision at 7"} <= set(rows)
    assert rows["Leave-one-out 3-NN error"][1] is None
    written = found.to_json()
    assert written["n_distractors"] == 100
    assert rows["Recall at 7"][1].startswith(f"{written['injected']['recall_at_7']['value']:.4f} (")
    (section,) = found.sections()
    assert "100 distractors" in section.text


def test_without_distractors_there_is_one_set(judged):
    codes, labels, *_ = judged
    found = evaluate_retrieval(codes, labels, ties="worst")
    assert list(found.measures()) == ["inside"]
    assert len(found.table().columns) == 2
    assert "distractors" not in found.sections()[0].text


def test_ties_at_worst_and_best_enclose_the_rest():
    labels = np.repeat(np.arange(4), 5)
    codes = np.zeros((20, 2))
    best, worst = (evaluate_retrieval(codes, labels, ties=ties) for ties in ("best", "worst"))
    assert (best.knn_error, worst.knn_error) == (0, 1)
    assert best.inside.means()["average_precision"] == 1
    assert worst.inside.means()["cmc_at_10"] == 0
    with pytest.raises(ValueError, match="ties must be"):
        evaluate_retrieval(codes, labels, ties="mean")
    with pytest.raises(ValueError, match="ties must be"):
        knn_error(codes, labels, ties="threshold")
