"""Model files by hand: of any content, and as each earlier version wrote them."""

import hashlib
import json

import numpy as np
import pytest
from safetensors.numpy import save

from samekind.model.metric import Metric, ModelFileError

EARLIER = (1, 2, 3, 4)


def sealed(tensors, notes):
    """A file with a right checksum, whatever it holds."""
    tensors = tensors | {"sha256": np.zeros(32, np.uint8)}
    body = save(tensors, {"samekind": json.dumps(notes)})[:-32]
    return body + hashlib.sha256(body).digest()


def earlier_parts(version, components, columns, n_features, **fields):
    """Arrays and notes as that version wrote them: 1 had no mean and no extractor, 2 no normalised codes, 3 no
    normalised groups."""
    groups = fields.pop("group_codes", None)  # values, rows, columns
    mean, extractor = fields.pop("mean", None), fields.pop("extractor", None)
    normalise, normalise_groups = fields.pop("normalise", "none"), fields.pop("normalise_groups", None)
    notes = {
        "format": "samekind.metric",
        "format_version": version,
        "n_features": n_features,
        "threshold": fields.pop("threshold", None),
        "groups": list(fields.pop("groups", ())),
        "feature_names": fields.pop("feature_names", None),
        "attributes": dict(fields.pop("attributes", {})),
    }
    assert not fields
    tensors = {"components": np.ascontiguousarray(components), "columns": np.asarray(columns, np.int64)}
    if version >= 2:
        notes["extractor"] = extractor
        tensors |= {} if mean is None else {"mean": mean}
    if version >= 3:
        notes["normalise"] = normalise
    if version >= 4:
        notes["normalise_groups"] = normalise_groups
        names = ("group_values", "group_rows", "group_columns")
        tensors |= {} if groups is None else dict(zip(names, map(np.asarray, groups), strict=True))
    return tensors, notes


def parts_of(metric, version=1):
    """The same of a metric over plain columns."""
    return earlier_parts(
        version,
        metric.components,
        metric.columns,
        metric.n_features,
        threshold=metric.threshold,
        groups=metric.groups,
        feature_names=metric.basis.feature_names,
        attributes=metric.attributes,
        mean=metric.basis.mean,
        extractor=None if metric.extractor is None else dict(metric.extractor),
        normalise=metric.normalise,
    )


def assert_refused(path, data, message=None):
    """The error names the file, and says what to do."""
    path.write_bytes(data)
    with pytest.raises(ModelFileError, match=message) as caught:
        Metric.load(path)
    assert str(path) in str(caught.value)
    assert "Metric.save" in str(caught.value) or "pip install --upgrade" in str(caught.value)
