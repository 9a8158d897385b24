import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.metrics import average_precision_score
from sklearn.neighbors import KNeighborsClassifier

from samekind.evaluation import (
    flip_free_codes,
    flip_free_queries,
    knn_error,
    mean_average_precision,
    retrieval,
    retrieve,
)


def literal_average_precisions(codes, labels, gallery, gallery_labels, leave_one_out):
    precisions = []
    distances = cdist(codes, gallery, "sqeuclidean")
    for i in range(len(codes)):
        others = [j for j in range(len(gallery)) if not (leave_one_out and i == j)]
        relevant = gallery_labels[others] == labels[i]
        if relevant.any():
            precisions.append(average_precision_score(relevant, -distances[i, others]))
    return precisions


def literal_knn_error(codes, labels, gallery, gallery_labels, k, leave_one_out):
    wrong = 0
    distances = cdist(codes, gallery, "sqeuclidean")
    for i in range(len(codes)):
        others = [j for j in range(len(gallery)) if not (leave_one_out and i == j)]
        nearest = sorted(others, key=lambda j: (distances[i, j], j))[:k]
        votes = [gallery_labels[j] for j in nearest]
        most = max(votes.count(vote) for vote in votes)
        wrong += next(vote for vote in votes if votes.count(vote) == most) != labels[i]
    return wrong / len(codes)


def sample(n, dimensions=5, n_classes=6, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(n_classes, size=n)
    return rng.normal(size=(n, dimensions)) + rng.normal(size=(n_classes, dimensions))[labels], labels


@st.composite
def grid_problem(draw, min_size=3):
    """Few samples on a coarse grid: many equal distances, classes of one among them."""
    n = draw(st.integers(min_size, 12))
    width = draw(st.integers(1, 3))
    scale = draw(st.sampled_from([1.0, 0.25, 1024.0]))
    codes = draw(st.lists(st.lists(st.integers(-2, 9), min_size=width, max_size=width), min_size=n, max_size=n))
    labels = draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    labels[1] = labels[0]
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    return (np.array(codes) * scale).astype(dtype), np.array(labels)


@settings(deadline=None, max_examples=60)
@given(grid_problem(), st.integers(1, 2), st.sampled_from([1, 1000, 10**6]))
def test_ties_on_a_grid_equal_sklearn_and_a_literal_loop(problem, k, memory_budget):
    codes, labels = problem
    result = retrieve(codes, labels, n_neighbors=k, memory_budget=memory_budget)
    precisions = literal_average_precisions(codes, labels, codes, labels, leave_one_out=True)
    assert result.mean_average_precision == pytest.approx(np.mean(precisions), abs=1e-12)
    assert result.knn_error == literal_knn_error(codes, labels, codes, labels, k, leave_one_out=True)
    assert (result.n_queries, result.n_samples, result.n_neighbors) == (len(precisions), len(codes), k)


@settings(deadline=None, max_examples=60)
@given(grid_problem(min_size=6), st.integers(1, 3))
def test_gallery_on_a_grid_equals_sklearn_and_a_literal_loop(problem, n_queries):
    (codes, others), (labels, other_labels) = (np.split(part, [n_queries]) for part in problem)
    labels[0] = other_labels[0]
    result = retrieve(codes, labels, gallery=others, gallery_labels=other_labels)
    precisions = literal_average_precisions(codes, labels, others, other_labels, leave_one_out=False)
    assert result.mean_average_precision == pytest.approx(np.mean(precisions), abs=1e-12)
    assert result.knn_error == literal_knn_error(codes, labels, others, other_labels, 3, leave_one_out=False)
    assert result.n_queries == len(precisions)


@pytest.mark.parametrize("k", [1, 3, 7, 59])
def test_knn_error_equals_a_literal_loop(k):
    codes, labels = sample(60)
    assert knn_error(codes, labels, k) == literal_knn_error(codes, labels, codes, labels, k, leave_one_out=True)


def test_knn_error_equals_sklearn_where_no_vote_is_tied():
    codes, labels = sample(80, n_classes=2)
    others, other_labels = sample(70, n_classes=2)
    theirs = KNeighborsClassifier(5).fit(others, other_labels).score(codes, labels)
    ours = knn_error(codes, labels, 5, gallery=others, gallery_labels=other_labels)
    assert ours == pytest.approx(1 - theirs)
    assert 0 < ours < 1


def test_tied_vote_goes_to_the_class_with_the_nearest_member():
    gallery, gallery_labels = [[1.0], [2.0], [3.0], [4.0], [5.0]], ["b", "a", "a", "b", "c"]
    for label, error in (("b", 0.0), ("a", 1.0), ("c", 1.0)):
        assert knn_error([[0.0]], [label], 5, gallery=gallery, gallery_labels=gallery_labels) == error


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tile_size_does_not_change_the_answer(dtype):
    codes, labels = sample(90)
    codes = codes.astype(dtype)
    whole = retrieve(codes, labels)
    for memory_budget in (1, 20_000, 100_000):
        assert retrieve(codes, labels, memory_budget=memory_budget) == whole


def test_each_figure_alone_equals_its_part_of_the_whole():
    codes, labels = sample(50)
    whole = retrieve(codes, labels, n_neighbors=4)
    assert mean_average_precision(codes, labels) == whole.mean_average_precision
    assert knn_error(codes, labels, 4) == whole.knn_error


def test_error_alone_sorts_no_whole_row(monkeypatch):
    monkeypatch.setattr(retrieval, "_average_precisions", lambda *_: pytest.fail("whole rows were sorted"))
    assert 0 <= knn_error(*sample(30)) <= 1
    with pytest.raises(pytest.fail.Exception):
        mean_average_precision(*sample(30))


def test_a_sample_never_finds_itself():
    codes, labels = [[0.0], [1.0], [10.0], [11.0]], [0, 1, 0, 1]
    assert knn_error(codes, labels, 1) == 1.0
    assert knn_error(codes, labels, 1, gallery=codes, gallery_labels=labels) == 1.0
    assert knn_error(codes, labels, 1, gallery=list(codes), gallery_labels=labels) == 0.0  # no ids: other samples


def test_duplicates_of_a_query_are_found():
    codes, labels = np.array([[1.0, 2.0]] * 3 + [[5.0, 5.0]] * 2), [0, 0, 0, 1, 1]
    assert retrieve(codes, labels, n_neighbors=1).mean_average_precision == 1.0
    assert knn_error(codes, labels, 1) == 0.0


def test_separated_classes_are_perfect_and_lone_samples_count_in_the_error_only():
    codes, labels = np.array([[0.0], [1.0], [100.0], [101.0], [300.0]]), ["a", "a", "b", "b", "alone"]
    result = retrieve(codes, labels, n_neighbors=1)
    assert result.mean_average_precision == 1.0
    assert (result.n_queries, result.n_samples) == (4, 5)
    assert result.knn_error == 1 / 5


def literal_by_ids(codes, labels, ids, gallery, gallery_labels, gallery_ids, k):
    """Mean average precision and k-NN error, each query against the entries with other ids."""
    precisions, wrong = [], []
    for code, label, own in zip(codes, labels, ids, strict=True):
        others = [j for j in range(len(gallery)) if gallery_ids[j] != own]
        one = code[np.newaxis], np.array([label]), gallery[others], gallery_labels[others]
        precisions += literal_average_precisions(*one, leave_one_out=False)
        wrong.append(literal_knn_error(*one, k, leave_one_out=False))
    return np.mean(precisions), np.mean(wrong)


@settings(deadline=None, max_examples=60)
@given(grid_problem(min_size=6), st.integers(1, 2), st.randoms(), st.sampled_from([1, 10**6]))
def test_queries_in_the_gallery_are_left_out_by_their_ids_alone(problem, k, random, memory_budget):
    gallery, gallery_labels = problem  # many duplicates and ties: those with other ids stay
    names = [f"picture {number}" for number in range(len(gallery))]
    random.shuffle(names)
    chosen = np.array([0, *random.sample(range(1, len(gallery)), 3)])
    codes, labels, ids = gallery[chosen], gallery_labels[chosen], [names[place] for place in chosen]
    ids[-1] = "not in the gallery"
    given_gallery = {"gallery": gallery, "gallery_labels": gallery_labels, "ids": ids, "gallery_ids": names}
    result = retrieve(codes, labels, n_neighbors=k, memory_budget=memory_budget, **given_gallery)
    precision, wrong = literal_by_ids(codes, labels, ids, gallery, gallery_labels, names, k)
    assert result.mean_average_precision == pytest.approx(precision, abs=1e-12)
    assert result.knn_error == pytest.approx(wrong, abs=1e-12)


def test_queries_and_others_as_gallery_equal_leave_one_out_over_the_queries():
    codes, labels = sample(50)
    queries = slice(0, 20)
    by_ids = retrieve(
        codes[queries], labels[queries], gallery=codes, gallery_labels=labels, ids=range(20), gallery_ids=np.arange(50)
    )
    precisions = literal_average_precisions(codes, labels, codes, labels, leave_one_out=True)
    assert by_ids.mean_average_precision == pytest.approx(np.mean(precisions[queries]))


def test_all_entries_with_the_id_of_a_query_are_left_out():
    codes, labels = np.array([[0.0], [0.05], [5.0], [0.2], [6.0]]), [0, 0, 0, 1, 1]
    pictures = [("ann", 1), ("ann", 1), ("ann", 2), ("bob", 1), ("bob", 2)]
    assert knn_error(codes, labels, 1) == 3 / 5
    assert (
        knn_error(codes, labels, 1, ids=pictures)
        == literal_by_ids(codes, np.array(labels), pictures, codes, np.array(labels), pictures, 1)[1]
        == 1.0
    )


def test_the_same_object_as_gallery_means_leave_one_out():
    codes, labels = sample(40)
    assert retrieve(codes, labels, gallery=codes, gallery_labels=labels) == retrieve(codes, labels)
    assert retrieve(codes, labels, gallery=codes.copy(), gallery_labels=labels) != retrieve(codes, labels)


def test_flip_free_codes_rank_by_the_mean_of_four_distances():
    codes, labels = sample(40)
    mirrored = codes + np.random.default_rng(1).normal(size=codes.shape) * np.linspace(0.1, 3, 40)[:, np.newaxis]
    flip_free = flip_free_codes(codes, mirrored)
    views = [cdist(a, b, "sqeuclidean") for a in (codes, mirrored) for b in (codes, mirrored)]
    mean = sum(views) / 4
    precisions, wrong = [], []
    for i in range(40):
        others = np.delete(np.arange(40), i)
        wrong.append(labels[others[mean[i, others].argmin()]] != labels[i])
        precisions.append(average_precision_score(labels[others] == labels[i], -mean[i, others]))
    queries, ids = flip_free_queries(flip_free), np.arange(40)
    result = retrieve(
        queries, labels, n_neighbors=1, gallery=flip_free, gallery_labels=labels, ids=ids, gallery_ids=ids
    )
    assert result.mean_average_precision == pytest.approx(np.mean(precisions))
    assert result.knn_error == np.mean(wrong)
    assert result != retrieve(flip_free, labels, n_neighbors=1)


@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_float32_codes_far_from_the_origin_keep_their_neighbours(shift):
    rng = np.random.default_rng(0)
    codes = (np.round(rng.normal(size=(60, 4)) * 64) / 64 + shift).astype(np.float32)  # exact at either place
    labels = rng.integers(4, size=60)
    precisions = literal_average_precisions(codes.astype(float), labels, codes.astype(float), labels, True)
    assert mean_average_precision(codes, labels) == pytest.approx(np.mean(precisions), abs=1e-9)


ALL_EQUAL = np.ones((2000, 2)), np.arange(2000) % 2


@pytest.mark.parametrize(
    ("data", "copies"),
    [(sample(3000, dimensions=3), 10), (ALL_EQUAL, 20)],
    ids=["any distances", "all distances equal"],
)
def test_memory_stays_within_the_budget(data, copies):
    codes, labels = data
    budget = 2**22  # all distances would take 72 MB, or 32
    tracemalloc.start()
    try:
        retrieve(codes, labels, memory_budget=budget)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < budget + copies * codes.nbytes


PAIR = np.array([[0.0], [1.0], [2.0], [5.0]]), [0, 0, 1, 1]
MISTAKES = {
    "codes hold NaN": lambda: retrieve([[np.nan], [1.0]], [0, 0]),
    "codes must be \\(n_samples": lambda: retrieve(np.zeros(3), [0, 0, 1]),
    "codes and labels must have the same length; got 4 and 3": lambda: retrieve(PAIR[0], [0, 0, 1]),
    "n_neighbors=4, but a query has 3 samples": lambda: retrieve(*PAIR, n_neighbors=4),
    "n_neighbors=5, but a query has 4": lambda: knn_error(*PAIR, 5, gallery=PAIR[0].copy(), gallery_labels=PAIR[1]),
    "n_neighbors=3, but a query has 2 samples": lambda: retrieve(*PAIR, ids=[0, 0, 1, 2]),
    "ids and gallery_ids go together": lambda: retrieve(
        *PAIR, gallery=PAIR[0].copy(), gallery_labels=PAIR[1], ids=[0, 1, 2, 3]
    ),
    "ids must be one per sample, 4; got 3": lambda: retrieve(*PAIR, ids=[0, 1, 2]),
    "ids must be one-dimensional": lambda: retrieve(*PAIR, ids=np.zeros((4, 2))),
    "ids such as 0 and gallery_ids such as '0' are of two kinds": lambda: retrieve(
        *PAIR, gallery=PAIR[0].copy(), gallery_labels=PAIR[1], ids=range(4), gallery_ids=list("0123")
    ),
    "No query has a sample of its class to": lambda: mean_average_precision(*PAIR, ids=["a", "a", "b", "b"]),
    "n_neighbors must be an integer of at least 1; got 0": lambda: knn_error(*PAIR, 0),
    "n_neighbors must be an integer of at least 1; got 1.5": lambda: retrieve(*PAIR, n_neighbors=1.5),
    "No query has a sample of its class": lambda: mean_average_precision(PAIR[0], [0, 1, 2, 3]),
    "go together": lambda: retrieve(*PAIR, gallery=PAIR[0]),
    "gallery and gallery_labels must have the same length": lambda: retrieve(
        *PAIR, gallery=PAIR[0], gallery_labels=[1]
    ),
    "codes have 1 components and the gallery 2": lambda: retrieve(
        *PAIR, gallery=np.ones((4, 2)), gallery_labels=[0, 0, 1, 1]
    ),
    "gallery codes hold NaN": lambda: retrieve(*PAIR, gallery=np.full((4, 1), np.inf), gallery_labels=[0, 0, 1, 1]),
    "memory_budget must be": lambda: retrieve(*PAIR, memory_budget=0),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_are_named(message):
    with pytest.raises(ValueError, match=message):
        MISTAKES[message]()
