import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samekind.evaluation import accuracy, best_threshold, compare_folds, roc_curve, verify, verify_folds

DISTANCES = np.array([1.0, 3.0, 2.0, 4.0, 2.0, 1.0, 0.0, 5.0])
SAME = np.array([True, False] * 4)
FOLDS = np.repeat([1, 2, 3, 4], 2)


@st.composite
def folded_pairs(draw, n_rows=None):
    """Distances (a row for each fold, if asked for), kinds and folds in any order, both kinds in every fold."""
    n_folds = draw(st.integers(2, 4))
    folds = np.concatenate([np.full(draw(st.integers(2, 6)), 10 * fold) for fold in range(n_folds)])
    same = np.array(draw(st.lists(st.booleans(), min_size=len(folds), max_size=len(folds))))
    starts = np.searchsorted(folds, np.unique(folds))
    same[starts], same[starts + 1] = True, False
    order = np.array(draw(st.permutations(range(len(folds)))))
    values = st.sampled_from([0.0, 0.5, 1.0, 2.0]) | st.floats(0, 100)
    shape = (n_folds if n_rows else 1) * len(folds)
    distances = np.array(draw(st.lists(values, min_size=shape, max_size=shape))).reshape(-1, len(folds))
    return (distances if n_rows else distances[0]), same[order], folds[order]


def share_called_right(distances, same, chosen, threshold):
    right = total = 0
    for distance, kind, counts in zip(distances, same, chosen, strict=True):
        if counts:
            total += 1
            right += (distance <= threshold) == kind
    return right / total


@given(folded_pairs())
def test_fold_accuracy_is_that_of_literal_loops(pairs):
    distances, same, folds = pairs
    result = verify_folds(distances, same, folds)
    assert result.folds == tuple(sorted(set(folds.tolist())))
    for fold, found, threshold in zip(result.folds, result.accuracies, result.thresholds, strict=True):
        assert found == share_called_right(distances, same, folds == fold, threshold)
        learned = share_called_right(distances, same, folds != fold, threshold)
        best = max(share_called_right(distances, same, folds != fold, t) for t in [-np.inf, *distances[folds != fold]])
        assert learned == pytest.approx(best, abs=1e-12)


@given(folded_pairs())
def test_mean_and_spread_are_those_of_literal_sums(pairs):
    result = verify_folds(*pairs)
    n, mean = len(result.folds), sum(result.accuracies) / len(result.folds)
    deviation = (sum((value - mean) ** 2 for value in result.accuracies) / (n - 1)) ** 0.5
    assert result.accuracy == pytest.approx(mean)
    assert result.standard_deviation == pytest.approx(deviation)
    assert result.standard_error == pytest.approx(deviation / n**0.5)


@given(folded_pairs())
def test_mean_curve_is_the_mean_of_the_folds_at_every_threshold(pairs):
    distances, same, folds = pairs
    roc = verify_folds(distances, same, folds).roc
    for threshold, true_rate, false_rate in zip(roc.thresholds, roc.true_match_rate, roc.false_match_rate, strict=True):
        for kind, rate in ((same, true_rate), (~same, false_rate)):
            rates = [np.mean(distances[(folds == fold) & kind] <= threshold) for fold in np.unique(folds)]
            assert rate == pytest.approx(np.mean(rates), abs=1e-12)


@given(folded_pairs(n_rows=True))
def test_a_row_for_each_fold_is_judged_by_that_fold_alone(pairs):
    distances, same, folds = pairs
    result = verify_folds(distances, same, folds)
    for place in range(len(distances)):
        alone = verify_folds(distances[place], same, folds)
        assert result.results[place] == alone.results[place]
    own = distances[np.searchsorted(np.unique(folds), folds), np.arange(len(folds))]
    assert verify_folds(own, same, folds, threshold=1.0) == verify_folds(distances, same, folds, threshold=1.0)
    assert result.auc == verify_folds(own, same, folds).auc


@given(folded_pairs())
def test_a_fold_has_no_part_in_its_own_threshold(pairs):
    distances, same, folds = pairs
    first = folds == folds.min()
    changed = np.where(first, distances[::-1] + 3, distances)
    flipped = np.where(first, ~same, same)
    assert verify_folds(distances, same, folds).thresholds[0] == verify_folds(changed, flipped, folds).thresholds[0]


def test_thresholds_tell_where_they_come_from():
    chosen_on = [0.0, 1.5, 9.0], [True, True, False]
    learned, given_one = verify_folds(DISTANCES, SAME, FOLDS), verify_folds(DISTANCES, SAME, FOLDS, threshold=2.5)
    view1 = verify_folds(DISTANCES, SAME, FOLDS, view1=chosen_on)
    assert [result.threshold_source for result in (learned, given_one, view1)] == ["training folds", "given", "view 1"]
    assert view1.thresholds.tolist() == [best_threshold(*chosen_on)] * 4
    assert given_one.thresholds.tolist() == [2.5] * 4
    assert given_one.accuracies.tolist() == [1.0, 1.0, 0.5, 1.0]
    assert learned.thresholds[0] == best_threshold(DISTANCES[2:], SAME[2:])
    assert {result.threshold_source for result in view1.results} == {"view 1"}


def test_thresholds_are_chosen_as_asked():
    pairs = np.array([0.0, 1.5, 9.0, 2.0]), np.array([True, True, False, False])
    for strategy in ("accuracy", "balanced", "logistic"):
        learned = verify_folds(DISTANCES, SAME, FOLDS, strategy=strategy)
        assert learned.thresholds[0] == best_threshold(DISTANCES[2:], SAME[2:], strategy=strategy)
        view1 = verify_folds(DISTANCES, SAME, FOLDS, view1=pairs, strategy=strategy)
        assert set(view1.thresholds.tolist()) == {best_threshold(*pairs, strategy=strategy)}


def test_figures_of_a_fold_are_those_of_verify():
    result = verify_folds(DISTANCES, SAME, FOLDS, threshold=2.5, far=0.5)
    fold = verify(DISTANCES[4:6], SAME[4:6], threshold=2.5, far=0.5)
    assert result.results[2] == fold
    assert result.accuracies[2] == accuracy(DISTANCES[4:6], SAME[4:6], 2.5)


def test_equal_folds_have_the_curve_of_all_pairs():
    result, roc = verify_folds(DISTANCES, SAME, FOLDS, far=0.25), roc_curve(DISTANCES, SAME)
    assert (result.auc, result.eer) == (roc.auc, roc.eer)
    assert result.true_match_rate == roc.true_match_rate_at(0.25)


def test_three_false_matches_of_3000_are_a_rate_of_one_in_a_thousand():
    folds = np.tile(np.arange(10), 600)
    same = np.arange(6000) < 3000
    distances = np.where(same, 1.0, 2.0)
    distances[-3:] = 0.0
    assert verify_folds(distances, same, folds).true_match_rate == 1.0
    distances[-4:] = 0.0
    assert verify_folds(distances, same, folds).true_match_rate == 0.0


def test_folds_may_have_names():
    assert verify_folds(DISTANCES, SAME, np.array(list("bbaaccdd"))).folds == ("a", "b", "c", "d")


def test_results_become_text_and_tables():
    result = verify_folds(DISTANCES, SAME, FOLDS, threshold=2.5)
    assert str(result) == "87.50 ± 12.50 % (threshold: given)"
    table = result.table()
    assert table.columns == ["fold", "same pairs", "other pairs", "threshold", "accuracy (%)", "AUC", "EER (%)"]
    assert table.rows[2] == [3, 1, 1, 2.5, 50.0, 0.0, 100.0]
    compared = compare_folds({"mine": result, "learned": verify_folds(DISTANCES, SAME, FOLDS)})
    assert compared.columns[-2:] == ["true match rate at 0.001 (%)", "95 % interval over folds"]
    assert compared.texts[0][:5] == ["mine", "given", "87.5", "25", "12.5"]
    assert compared.rows[0][5:7] == [result.auc, 100 * result.eer]
    assert compared.rows[0][9] == 100 * result.true_match_rate
    assert compared.rows[1][:2] == ["learned", "training folds"]


def test_the_interval_of_a_true_match_rate_is_that_of_folds_drawn_again():
    rng = np.random.default_rng(0)
    n, per = 6, 40
    folds, same = np.repeat(np.arange(n), 2 * per), np.tile(np.repeat([True, False], per), n)
    distances = rng.normal(size=len(same)) - 1.5 * same + 0.3 * folds * same
    result = verify_folds(distances, same, folds)
    drawn = []
    for _ in range(400):
        chosen = rng.integers(n, size=n)
        rows = np.concatenate([np.flatnonzero(folds == fold) for fold in chosen])
        drawn.append(roc_curve(distances[rows], same[rows]).true_match_rate_at(0.1))
    low, high = result.true_match_interval(0.1)
    assert low < result.roc.true_match_rate_at(0.1) < high
    np.testing.assert_allclose([low, high], np.quantile(drawn, [0.025, 0.975]), atol=0.04)


def test_folds_that_are_alike_leave_no_doubt_and_one_fold_leaves_all():
    distances, same = np.tile(np.arange(8.0), 3), np.tile(np.arange(8) < 4, 3)
    alike = verify_folds(distances, same, np.repeat([1, 2, 3], 8))
    assert alike.true_match_interval(0.5) == (1.0, 1.0)
    single = verify_folds(distances, same, np.repeat([1, 2, 3], 8), tested=[2])
    assert np.isnan(single.true_match_interval(0.5)).all()


def test_some_folds_are_judged_as_among_all():
    """A fold's own pairs and threshold do not depend on which other folds are judged."""
    rows = DISTANCES + np.arange(4)[:, None] * (np.arange(8) % 3)
    every = verify_folds(rows, SAME, FOLDS)
    some = verify_folds(rows[[1, 3]], SAME, FOLDS, tested=[2, 4])
    assert some.folds == (2, 4)
    assert some.results == (every.results[1], every.results[3])
    assert len(some.roc.thresholds) <= 1 + 4


def test_a_single_fold_has_no_spread():
    one = verify_folds(DISTANCES[None], SAME, FOLDS, tested=[3])
    assert one.accuracy == verify_folds(DISTANCES, SAME, FOLDS).results[2].accuracy
    assert np.isnan(one.standard_deviation)


MISTAKES = {
    "tested must be some of the folds \\[1, 2, 3, 4\\], in rising order; got \\[5\\]": lambda: verify_folds(
        DISTANCES, SAME, FOLDS, tested=[5]
    ),
    "in rising order; got \\[2, 1\\]": lambda: verify_folds(DISTANCES, SAME, FOLDS, tested=[2, 1]),
    "one for each pair, \\(8,\\), or for each fold and pair, \\(4, 8\\); got \\(3, 8\\)": lambda: verify_folds(
        np.ones((3, 8)), SAME, FOLDS
    ),
    "same and folds must have the same length; got 8 and 7": lambda: verify_folds(DISTANCES, SAME, FOLDS[:-1]),
    "Two folds are needed at least.*got 1": lambda: verify_folds(DISTANCES, SAME, np.ones(8)),
    "Fold 4 has 0 same of 2 pairs": lambda: verify_folds(DISTANCES, np.arange(8) == [0, 0, 2, 2, 4, 4, 0, 0], FOLDS),
    "Fold 1 has 2 same of 2 pairs": lambda: verify_folds(DISTANCES, SAME | (FOLDS == 1), FOLDS),
    "distances hold NaN": lambda: verify_folds(np.full(8, np.nan), SAME, FOLDS),
    "same must be boolean": lambda: verify_folds(DISTANCES, np.where(SAME, 1, -1), FOLDS),
    "not both": lambda: verify_folds(DISTANCES, SAME, FOLDS, threshold=1.0, view1=(DISTANCES, SAME)),
    "folds must be one-dimensional": lambda: verify_folds(DISTANCES, SAME, FOLDS[:, None]),
    "far, the false match rate": lambda: verify_folds(DISTANCES, SAME, FOLDS, far=0.0),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_are_named(message):
    with pytest.raises(ValueError, match=message):
        MISTAKES[message]()
