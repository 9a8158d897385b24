"""Scores that were not looked at again, foreseen from those that were."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samekind.solvers import forecast
from samekind.solvers.forecast import Forecast, Outlook, Worth

N_GROUPS, N_KINDS, N_PAIRS = 240, 8, 60


def kinds_of_groups(seed=0):
    """Groups of a few kinds: those of a kind see nearly the same distances. `kinds, distances`."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(N_KINDS, size=N_GROUPS)
    distances = rng.gamma(4, size=(N_KINDS, N_PAIRS))[kinds] * rng.gamma(200, 1 / 200, size=(N_GROUPS, N_PAIRS))
    return kinds, distances


def changed(scores, kinds, seed=0, common=-0.3, of_kind=0.2, own=0.02):
    """All scores a round later."""
    rng = np.random.default_rng([seed, 1])
    return scores * np.exp(common + of_kind * rng.normal(size=N_KINDS)[kinds] + own * rng.normal(size=N_GROUPS))


def looked_at(n=60, seed=0):
    return np.random.default_rng([seed, 2]).permutation(N_GROUPS)[:n]


def literal(made, known, looked, scores):
    """The outlook as a textbook has it: in float64, with an inverse."""
    S = made.signatures.astype(np.float64)
    alike = np.exp((S @ S.T - 1) / forecast.LENGTH)
    changes = np.log(scores) - known.expected[looked]
    common = np.median(changes)
    spread = 1.4826 * np.median(np.abs(changes - common))
    own = np.clip(changes - common, -forecast.OUTLYING * spread, forecast.OUTLYING * spread)
    noise = np.diag(forecast.OWN_SHARE + known.variance[looked] / spread**2)
    inverse = np.linalg.inv(alike[np.ix_(looked, looked)] + noise)
    towards = alike[:, looked]
    expected = known.expected + common + towards @ inverse @ own
    scale = own @ inverse @ own / len(looked)
    variance = scale * (1 + forecast.OWN_SHARE - np.diag(towards @ inverse @ towards.T))
    return expected, known.variance + variance


@pytest.mark.parametrize("seed", range(3))
def test_an_outlook_is_the_posterior_of_a_gaussian_process(seed):
    kinds, distances = kinds_of_groups(seed)
    scores = np.random.default_rng(seed).gamma(5, size=N_GROUPS)
    made, known, looked = Forecast(distances), Outlook.certain(scores), looked_at(seed=seed)
    for round_ in range(3):
        scores = changed(scores, kinds, seed=10 * seed + round_)
        outlook = made.outlook(known, looked, scores[looked])
        expected, variance = literal(made, known, looked, scores[looked])
        np.testing.assert_allclose(outlook.expected, expected, atol=1e-4)
        np.testing.assert_allclose(outlook.variance, variance, rtol=1e-3, atol=1e-6)
        known = outlook.after(looked, scores[looked])
        looked = looked_at(seed=100 + seed)


@pytest.mark.parametrize("seed", range(5))
def test_groups_alike_tell_of_each_other(seed):
    kinds, distances = kinds_of_groups(seed)
    before = np.random.default_rng(seed).gamma(5, size=N_GROUPS)
    after = changed(before, kinds, seed)
    looked = looked_at(seed=seed)
    outlook = Forecast(distances).outlook(Outlook.certain(before), looked, after[looked])
    unseen = np.setdiff1d(np.arange(N_GROUPS), looked)
    errors = (np.log(after) - outlook.expected)[unseen]
    plain = (np.log(after / before) - np.median(np.log(after / before)[looked]))[unseen]
    assert errors.std() < plain.std() / 3
    within = np.abs(errors) <= 2 * np.sqrt(outlook.variance[unseen])
    assert within.mean() > 0.85
    assert np.sqrt(outlook.variance[unseen].mean()) < 5 * errors.std()


@pytest.mark.parametrize("seed", range(3))
def test_chances_add_up_to_how_many_are_above(seed):
    kinds, distances = kinds_of_groups(seed)
    before = np.random.default_rng(seed).gamma(5, size=N_GROUPS)
    after, looked = changed(before, kinds, seed), looked_at(seed=seed)
    outlook = Forecast(distances).outlook(Outlook.certain(before), looked, after[looked])
    for level in (0.5, 0.8, 0.95):
        score = np.quantile(after, level)
        assert outlook.chances(score).sum() == pytest.approx((after > score).sum(), rel=0.3)


def test_chances_are_those_of_normal_logarithms():
    outlook = Outlook(np.log([1.0, 2.0, 4.0, 4.0, 0.5]), np.array([0.25, np.log(2) ** 2, 0.0, 0.01, 0.0]))
    # at 2: a factor of 2 is 1.386 standard deviations, then none; certainly above; 6.93 of them; certainly below
    np.testing.assert_allclose(outlook.chances(2.0), [0.082828, 0.5, 1, 1, 0], atol=1e-6)
    assert (outlook.chances(0.0) == 1).all()


def test_what_is_known_of_some_is_carried_over_to_those_alike():
    kinds, distances = kinds_of_groups()
    forecast = Forecast(distances)
    values = np.where(kinds == kinds[0], -0.08, -0.01)
    known = np.flatnonzero(kinds == kinds[0])[:3]
    told = forecast.carried_over(known, values[known], -0.02, 0.02)
    alike = np.setdiff1d(np.flatnonzero(kinds == kinds[0]), known)
    others = np.flatnonzero(kinds != kinds[0])
    assert told.expected[known].max() < -0.06
    assert told.expected[alike].mean() < told.expected[others].mean() - 0.01
    assert told.variance[known].max() < told.variance[alike].mean() < told.variance[others].mean()
    assert (told.variance <= 0.02**2 * 1.1 * (1 + 1e-6)).all()


def test_what_is_looked_at_is_known_and_the_rest_grows_uncertain():
    kinds, distances = kinds_of_groups()
    scores = np.random.default_rng(0).gamma(5, size=N_GROUPS)
    made, known = Forecast(distances), Outlook.certain(scores)
    for round_ in range(4):
        scores, looked = changed(scores, kinds, round_), looked_at(seed=round_ % 2)
        before = known
        known = made.outlook(before, looked, scores[looked]).after(looked, scores[looked])
        unseen = np.setdiff1d(np.arange(N_GROUPS), looked)
        np.testing.assert_allclose(known.expected[looked], np.log(scores[looked]))
        assert not known.variance[looked].any()
        assert (known.variance[unseen] > before.variance[unseen]).all()


def test_a_few_groups_that_crash_do_not_make_all_others_uncertain():
    kinds, distances = kinds_of_groups()
    before = np.random.default_rng(0).gamma(5, size=N_GROUPS)
    after, looked = changed(before, kinds, of_kind=0.0), looked_at()
    crashed = after.copy()
    crashed[looked[:2]] /= 1000
    spread = [
        np.sqrt(Forecast(distances).outlook(Outlook.certain(before), looked, scores[looked]).variance.mean())
        for scores in (after, crashed)
    ]
    assert spread[1] < 2 * spread[0]


def test_only_so_many_are_trained_on(monkeypatch):
    kinds, distances = kinds_of_groups()
    before = np.random.default_rng(0).gamma(5, size=N_GROUPS)
    after, looked = changed(before, kinds), looked_at()
    few = Forecast(distances).outlook(Outlook.certain(before), looked[:20], after[looked[:20]])
    monkeypatch.setattr(forecast, "MOST_TRAINED", 20)
    many = Forecast(distances).outlook(Outlook.certain(before), looked, after[looked])
    np.testing.assert_array_equal(few.expected, many.expected)


@given(
    st.lists(st.floats(0, 1e6), min_size=8, max_size=8),
    st.lists(st.floats(0, 1e6), min_size=4, max_size=4),
    st.lists(st.floats(-1e6, 1e6), min_size=8, max_size=8),
)
def test_any_scores_and_traces_give_a_finite_outlook(before, after, rises):
    distances = np.random.default_rng(0).gamma(4, size=(8, 12))
    distances[0] = 0  # a group where nothing differs
    known, looked = Outlook.certain(np.array(before)), np.array([0, 2, 5, 7])
    told = Worth.fitted(known, looked, np.array(after), np.array(rises)).applied(known, np.array(rises))
    outlook = Forecast(distances).outlook(told, looked, np.array(after))
    assert np.isfinite(outlook.expected).all()
    assert np.isfinite(outlook.variance).all()
    assert (outlook.variance >= 0).all()


# -- what traces tell -------------------------------------------------------------------------------------------------


def falling_with_traces(noise=0.0, outliers=0, seed=0):
    """Scores that fall by 0.3 of what traces rise by, beside a common factor of 0.9: `before, rises, after`."""
    rng = np.random.default_rng([seed, 3])
    before = rng.gamma(5, size=N_GROUPS)
    rises = before * rng.uniform(-0.5, 2, size=N_GROUPS)
    after = 0.9 * before - 0.3 * rises
    after *= np.exp(noise * rng.normal(size=N_GROUPS))
    after[looked_at(seed=seed)[:outliers]] /= 1000
    return before, rises, after


@pytest.mark.parametrize("outliers", [0, 6])
def test_what_traces_are_worth_is_found_though_a_tenth_of_the_groups_do_something_else(outliers):
    before, rises, after = falling_with_traces(outliers=outliers)
    known, looked = Outlook.certain(before), looked_at()
    worth = Worth.fitted(known, looked, after[looked], rises)
    assert worth == pytest.approx((0.9, -0.3), abs=1e-3 if outliers else 1e-9)
    unseen = np.setdiff1d(np.arange(N_GROUPS), looked)
    told = worth.applied(known, rises)
    np.testing.assert_allclose(told.expected[unseen], np.log(after)[unseen], atol=1e-2 if outliers else 1e-9)
    np.testing.assert_array_equal(told.variance, known.variance)


@pytest.mark.parametrize("seed", range(3))
def test_traces_make_forecasts_as_certain_as_they_are_right(seed):
    _, distances = kinds_of_groups(seed)
    before, rises, after = falling_with_traces(noise=0.03, seed=seed)
    known, looked = Outlook.certain(before), looked_at(seed=seed)
    told = Worth.fitted(known, looked, after[looked], rises).applied(known, rises)
    with_traces, without = (Forecast(distances).outlook(start, looked, after[looked]) for start in (told, known))
    unseen = np.setdiff1d(np.arange(N_GROUPS), looked)
    errors = [(made.expected - np.log(after))[unseen] for made in (with_traces, without)]
    assert errors[0].std() < errors[1].std() / 4
    assert errors[0].std() < 0.05
    assert 0.85 < (np.abs(errors[0]) <= 2 * np.sqrt(with_traces.variance[unseen])).mean() < 1


def test_traces_that_do_not_change_tell_nothing_but_what_is_common():
    before = np.random.default_rng(0).gamma(5, size=N_GROUPS)
    known, looked = Outlook.certain(before), looked_at()
    told = Worth.fitted(known, looked, 0.7 * before[looked], np.zeros(N_GROUPS)).applied(known, np.zeros(N_GROUPS))
    np.testing.assert_allclose(told.expected, np.log(0.7 * before))


def test_a_trace_that_takes_all_of_a_score_leaves_some():
    known = Outlook.certain(np.array([2.0, 1.0]))
    told = Worth(0.9, -0.3).applied(known, np.array([0.0, 100.0]))
    np.testing.assert_allclose(np.exp(told.expected), [1.8, forecast.LARGEST_FALL])
