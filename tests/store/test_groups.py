"""What a user may write for feature groups, and what is said of what may not be."""

import numpy as np
import pytest

from samekind.store.groups import FeatureGroups


def columns(groups):
    return [indices.tolist() for indices in groups.columns]


@pytest.mark.parametrize(
    ("spec", "n_features", "expected"),
    [
        (2, 6, [[0, 1], [2, 3], [4, 5]]),
        (4, 6, [[0, 1, 2, 3], [4, 5]]),
        (9, 6, [[0, 1, 2, 3, 4, 5]]),
        (np.int64(3), 6, [[0, 1, 2], [3, 4, 5]]),
        ([slice(0, 2), slice(4, None)], 6, [[0, 1], [4, 5]]),
        ([slice(None, None, 2), slice(-1, None)], 6, [[0, 2, 4], [5]]),
        ([[3, 0], np.array([1, 5], dtype=np.uint8)], 6, [[3, 0], [1, 5]]),
        ([4, 2], 6, [[4], [2]]),
        (np.array([[0, 1], [4, 5]]), 6, [[0, 1], [4, 5]]),
        (((0,), (1, 2)), 3, [[0], [1, 2]]),
    ],
    ids=str,
)
def test_groups_that_can_be_parsed(spec, n_features, expected):
    groups = FeatureGroups.parse(spec, n_features)
    assert columns(groups) == expected
    assert groups.names == tuple(str(k) for k in range(len(expected)))
    assert len(groups) == len(expected)
    assert groups.sizes.tolist() == [len(group) for group in expected]


def test_a_mapping_gives_the_names_in_its_order():
    groups = FeatureGroups.parse({"mouth": [4, 5], "eyes": slice(0, 3), 7: 3}, 6)
    assert groups.names == ("mouth", "eyes", "7")
    assert columns(groups) == [[4, 5], [0, 1, 2], [3]]


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        (True, TypeError, "feature_groups=True is of type bool"),
        (2.0, TypeError, r"feature_groups=2\.0 is of type float: give an int"),
        ("ab", TypeError, "feature_groups='ab' is of type str"),
        (b"ab", TypeError, "is of type bytes"),
        (None, TypeError, "feature_groups=None is of type NoneType"),
        (slice(0, 2), TypeError, "is of type slice"),
        (0, ValueError, "feature_groups=0 is no group size: give a positive number"),
        (-3, ValueError, "feature_groups=-3 is no group size"),
        ([], ValueError, "feature_groups is empty: give at least one group"),
        ({}, ValueError, "feature_groups is empty"),
        (np.zeros((0, 2), dtype=int), ValueError, "feature_groups is empty"),
        ([[0, 1], []], ValueError, "Feature group '1' has no columns"),
        ([slice(3, 3)], ValueError, "Feature group '0' has no columns"),
        ([[0, 6]], ValueError, r"Feature group '0' has column 6, but X has 6 features \(columns 0 to 5\)"),
        ({"eyes": [0, -1]}, ValueError, "Feature group 'eyes' has column -1, but X has 6 features"),
        ([[0, 1, 0]], ValueError, "Feature group '0' names a column twice"),
        (
            {"eyes": [0, 1], "mouth": slice(1, 3)},
            ValueError,
            "Column 1 stands in group 'eyes' and in .*'mouth': feature groups must not overlap",
        ),
        ([[True, False, True]], ValueError, "Feature group '0' must be a slice or a 1-d array of integer column"),
        ([[0.0, 1.0]], ValueError, r"Feature group '0' must be .* not \[0\.0, 1\.0\]"),
        ([["a", "b"]], ValueError, "Feature group '0' must be a slice or a 1-d array"),
        (["ab"], ValueError, "Feature group '0' must be a slice or a 1-d array"),
        ([None], ValueError, "Feature group '0' must be a slice or a 1-d array"),
        ([[[0, 1], [2, 3]]], ValueError, "Feature group '0' must be a slice or a 1-d array"),
        ([[[0, 1], [2]]], ValueError, "Feature group '0' must be a slice or a 1-d array"),
        (np.array(3), TypeError, "feature_groups=.* give an int"),
    ],
    ids=str,
)
def test_groups_that_cannot_be_parsed_are_explained(spec, error, message):
    with pytest.raises(error, match=message):
        FeatureGroups.parse(spec, 6)
