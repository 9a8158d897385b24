"""Counted ranks are those of sorting, for any ties, and the figures those of their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from samekind.evaluation import count_ranks, flip_free_distances, mean_average_precision, ranks
from samekind.kernels.similarity import offset_distances

AT = (1, 2, 5)


def squared(a, b):
    return ((a.astype(np.float64) - b.astype(np.float64)) ** 2).sum(axis=1)


def distances_of(query, codes, distance):
    return (distance or squared)(np.tile(query, (len(codes), 1)).astype(np.float64), codes.astype(np.float64))


def sorted_relevance(codes, labels, i, others, distance, ties, ids, other_ids):
    """Whether each candidate is relevant, nearest first, and the distances in that order."""
    candidates = np.concatenate([codes, others])
    relevant = np.concatenate([labels == labels[i], np.zeros(len(others), bool)])
    kept = np.concatenate([ids, other_ids]) != ids[i]
    distances = distances_of(codes[i], candidates, distance)[kept]
    relevant = relevant[kept]
    order = np.lexsort((relevant if ties == "worst" else ~relevant, distances))
    return relevant[order], distances[order]


def literal_figures(relevant):
    """By going through the list, one rank after the other."""
    total, found, precisions = int(relevant.sum()), 0, {}
    for rank, is_relevant in enumerate(relevant, start=1):
        if is_relevant:
            found += 1
            precisions[rank] = found / rank
    if not total:
        return None
    figures = {
        "average_precision": sum(precisions.values()) / total,
        "map_at_r": sum(p for rank, p in precisions.items() if rank <= total) / total,
        "r_precision": sum(rank <= total for rank in precisions) / total,
        "reciprocal_rank": 1 / min(precisions),
    }
    for k in AT:
        inside = [p for rank, p in precisions.items() if rank <= k]
        figures[f"average_precision_at_{k}"] = sum(inside) / min(total, k)
        figures[f"recall_at_{k}"] = len(inside) / total
        figures[f"cmc_at_{k}"] = float(len(inside) > 0)
    return figures


@st.composite
def problem(draw):
    """On a coarse grid, so that many distances are equal; with distractors, ids shared by samples, numbers s."""
    n, width = draw(st.integers(2, 14)), draw(st.integers(1, 3))
    n_others = draw(st.integers(0, 8))
    values = draw(
        st.lists(st.integers(-2, 3), min_size=(n + n_others) * (width + 1), max_size=(n + n_others) * (width + 1))
    )
    kind = draw(st.sampled_from([None, flip_free_distances, offset_distances]))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    codes = (np.array(values).reshape(n + n_others, width + 1) * draw(st.sampled_from([1.0, 0.25, 1024.0]))).astype(
        dtype
    )
    labels = np.array(draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    ids = np.array(draw(st.lists(st.integers(0, 20), min_size=n, max_size=n))) if draw(st.booleans()) else np.arange(n)
    other_ids = np.array(draw(st.lists(st.integers(0, 30), min_size=n_others, max_size=n_others)), int)
    if not draw(st.booleans()):
        other_ids = 100 + np.arange(n_others)
    return codes[:n], labels, codes[n:], kind, ids, other_ids


@given(problem(), st.sampled_from(["best", "worst"]))
def test_figures_are_those_of_going_through_the_list(case, ties):
    codes, labels, others, kind, ids, other_ids = case
    counted = count_ranks(
        codes,
        labels,
        distractors=others if len(others) else None,
        distance=kind,
        ids=ids,
        distractor_ids=other_ids if len(others) else None,
        n_jobs=1,
    )
    found = counted.figures(at=AT, ties=ties).columns()
    for i in range(len(codes)):
        relevant, _ = sorted_relevance(codes, labels, i, others, kind, ties, ids, other_ids)
        expected = literal_figures(relevant)
        assert counted.n_candidates[i] == len(relevant)
        for name, values in found.items():
            if expected is None:
                assert np.isnan(values[i])
            else:
                assert values[i] == pytest.approx(expected[name], abs=1e-12), name


@given(problem())
def test_average_precision_with_ties_is_that_of_scikit_learn(case):
    codes, labels, others, kind, ids, other_ids = case
    counted = count_ranks(
        codes,
        labels,
        distractors=others if len(others) else None,
        distance=kind,
        ids=ids,
        distractor_ids=other_ids if len(others) else None,
        n_jobs=1,
    )
    found = counted.figures().average_precision
    best, worst = (counted.figures(ties=ties).average_precision for ties in ("best", "worst"))
    for i in range(len(codes)):
        relevant, distances = sorted_relevance(codes, labels, i, others, kind, "best", ids, other_ids)
        if relevant.any():
            assert found[i] == pytest.approx(average_precision_score(relevant, -distances), abs=1e-12)
            assert worst[i] <= best[i]


def clustered(n, n_classes, width=20, seed=0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    labels = rng.integers(n_classes, size=n)
    centres = np.random.default_rng(99).standard_normal((n_classes, width))
    return (centres[labels] + 0.7 * rng.standard_normal((n, width))).astype(dtype), labels


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_many_tiles_and_threads_give_what_one_sort_gives(n_jobs):
    codes, labels = clustered(300, 12)
    others, _ = clustered(400, 12, seed=1)
    codes[7], codes[8], others[3] = codes[6], codes[6], codes[6]  # equal, in one class or another
    sets = [
        ranks._Entries.of(codes, None, labels, np.arange(300)),
        ranks._Entries.of(others, None, np.full(400, 300), 1000 + np.arange(400)),
    ]
    problem = ranks._Queries.of(sets[0], np.arange(300))
    problem.count(sets, n_jobs, tile_rows=37, tile_queries=23)
    found = problem.ranks(sets).figures(ties="worst").average_precision
    for i in range(0, 300, 17):
        relevant, _ = sorted_relevance(codes, labels, i, others, None, "worst", np.arange(300), 1000 + np.arange(400))
        assert found[i] == pytest.approx(literal_figures(relevant)["average_precision"], abs=1e-12)


def test_without_distractors_it_is_the_mean_average_precision():
    codes, labels = clustered(200, 8, dtype=np.float64)
    means = count_ranks(codes, labels).figures().means()
    assert means["average_precision"] == pytest.approx(mean_average_precision(codes, labels), abs=1e-12)


def test_distractors_are_neither_queries_nor_relevant():
    codes, labels = clustered(60, 4)
    inside = count_ranks(codes, labels)
    with_more = count_ranks(codes, labels, distractors=codes)  # equal to every sample, and still not relevant
    assert len(with_more) == 60
    assert with_more.n_relevant.tolist() == inside.n_relevant.tolist()
    assert (with_more.n_candidates == inside.n_candidates + 60).all()
    assert with_more.figures(ties="worst").means()["average_precision"] < inside.figures().means()["average_precision"]


def test_some_samples_as_queries():
    codes, labels = clustered(80, 5)
    chosen = np.array([3, 70, 11])
    every = count_ranks(codes, labels).figures().average_precision
    assert np.array_equal(count_ranks(codes, labels, queries=chosen).figures().average_precision, every[chosen])


def test_intervals_are_over_classes():
    codes, labels = clustered(200, 10)
    figures = count_ranks(codes, labels).figures()
    low, high = figures.intervals()["average_precision"]
    assert low < figures.means()["average_precision"] < high
    copies = count_ranks(np.repeat(codes, 3, axis=0), np.repeat(labels, 3), ids=np.repeat(np.arange(200), 3)).figures()
    again = copies.intervals()["average_precision"]
    assert again[1] - again[0] > 0.8 * (high - low)  # three times the queries are not three times the classes


def test_what_cannot_be_ranked_is_refused():
    codes, labels = clustered(20, 3)
    with pytest.raises(ValueError, match="use one metric"):
        count_ranks(codes, labels, distractors=codes[:, :3])
    with pytest.raises(ValueError, match="without ids"):
        count_ranks(codes, labels, distractors=codes, distractor_ids=range(20))
    with pytest.raises(ValueError, match="ties must be"):
        count_ranks(codes, labels).figures(ties="mean")
    with pytest.raises(ValueError, match="no vectors with a number"):
        count_ranks(codes, labels, distance=squared)
