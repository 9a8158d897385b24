"""Real grouped features, if they lie beside the repository: six descriptions of handwritten digits, of unequal size."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import train_test_split

from samekind import EnsembleMetric
from samekind.evaluation import knn_error, mean_average_precision

MFEAT = Path(__file__).parents[2] / "shared" / "data" / "mfeat"
NAMES = ["fac", "fou", "kar", "mor", "pix", "zer"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not MFEAT.is_dir(), reason="no ../shared/data/mfeat beside the repository"),
]


@pytest.fixture(scope="module")
def digits():
    """Training and test halves, standardised on the training half, and the columns of each description."""
    tables = [np.loadtxt(MFEAT / f"mfeat-{name}.csv", delimiter=",", skiprows=1)[::3] for name in NAMES]
    y = tables[0][:, -1].astype(int)
    ends = np.cumsum([table.shape[1] - 1 for table in tables])
    groups = {name: slice(end - t.shape[1] + 1, end) for name, t, end in zip(NAMES, tables, ends, strict=True)}
    X = np.hstack([table[:, :-1] for table in tables])
    train, test = train_test_split(np.arange(len(y)), test_size=0.5, stratify=y, random_state=0)
    X = (X - X[train].mean(axis=0)) / (X[train].std(axis=0) + 1e-9)
    return X[train].astype(np.float32), y[train], X[test].astype(np.float32), y[test], groups


@pytest.mark.parametrize("loss", ["pairwise", "triplet"])
def test_short_codes_beat_all_649_features(digits, loss):
    X, y, X_test, y_test, groups = digits
    model = EnsembleMetric(groups, loss=loss, max_groups=3, n_components=12, cv=None)
    model.set_params(selection__tol=0.05).fit(X, y)
    codes = model.transform(X_test)
    assert codes.shape[1] <= 12
    assert len(model.selected_groups_) <= 3
    assert mean_average_precision(codes, y_test) > mean_average_precision(X_test, y_test) + 0.1
    assert knn_error(codes, y_test) <= knn_error(X_test, y_test)


def test_each_description_as_a_family_of_its_own(digits):
    X, y, X_test, y_test, groups = digits
    model = EnsembleMetric(groups, families=NAMES, max_groups=1, n_components=12, cv=None)
    model.set_params(selection__tol=0.05).fit(X, y)
    assert set(model.selected_group_names_) == set(NAMES)
    assert knn_error(model.transform(X_test), y_test) < 0.06
