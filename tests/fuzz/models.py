"""Models that a stranger may send: the checksum is mostly right, the content is not."""

import copy
from dataclasses import replace

import numpy as np

from samekind.cli.info import _model, _say_model
from samekind.images.align import Frame
from samekind.images.extractor import Extractor
from samekind.model import file as model_file
from samekind.model.basis import Basis
from samekind.model.calibration import Calibration, OperatingPoint
from samekind.model.metric import Metric
from samekind.model.similarity import Similarity
from tests.fuzz.mutations import check_json, spoilt_bytes, spoilt_json
from tests.images.pictures import face_like
from tests.model.files import parts_of, sealed

CALIBRATION = Calibration(
    (1.0, 3.0, 5.0),
    (2.0, 1.0, -3.0),
    (0.01, 0.1, 1.0),
    (1.0, 2.0, 9.0),
    (OperatingPoint(0.1, 2.0, 0.9, (0.05, 0.2), (0.8, 0.95)),),
    *(40, 200, 500, 1000, "held-out classes"),
)
DTYPES = [np.float32, np.float64, np.float16, np.int64, np.int32, np.uint8, np.int8, np.bool_, np.uint16]


class Models:
    """Cases of the kind `models`."""

    def __init__(self, folder):
        self.path = folder / "model"
        self.pictures = [face_like(60, 44, seed=seed).astype(np.float32) for seed in (1, 2)]
        self.parts = [*map(self._written, _metrics()), *(parts_of(_plain(), version) for version in (2, 3, 4))]

    def _written(self, metric):
        metric.save(self.path)
        arrays, notes = model_file.read_model(self.path)
        return dict(arrays), notes

    def make(self, rng):
        """A file."""
        arrays, notes = rng.choice(self.parts)
        kind = rng.random()
        if kind < 0.1:
            data = spoilt_bytes(rng, sealed(arrays, notes), first=3000)
        elif kind < 0.7:
            data = sealed(arrays, spoilt_json(rng, notes))
        else:
            data = sealed(_spoilt_arrays(rng, arrays), notes if rng.random() < 0.7 else spoilt_json(rng, notes))
        self.path.write_bytes(data)

    def use(self, rng):
        """As `info`, `verify` and `encode` do; what they answer must be finite."""
        result = _model(self.path)
        check_json(result)
        _say_model(result)
        metric = Metric.load(self.path)
        if metric.extractor is not None and metric.extractor["alignment"] == "none":
            encoded = metric.encoder().encode_each([(each, str(at)) for at, each in enumerate(self.pictures)], 1)
            assert np.isfinite(encoded.codes).all()
            distance = float(metric.code_distance(encoded.codes[:1], encoded.codes[1:])[0])
            assert np.isfinite(distance)
            if metric.calibration is not None:
                assert 0 <= metric.calibration.probability([distance])[0] <= 1
                if metric.calibration.smallest_rate is not None:
                    assert 0 <= metric.calibration.false_match_rate(distance) <= 1


def _plain():
    whole = Extractor.over(["cov"], n_regions=4, frame=Frame(40, 56))
    rng = np.random.default_rng(0)
    n = whole.n_features
    components = rng.standard_normal((3, n)).astype(np.float32)
    extra = {"threshold": 2.5, "attributes": {"loss": "pairwise", "rounds": [1, 2]}, "extractor": whole.to_json()}
    return Metric.linear(components, np.arange(n), n, mean=np.zeros(n, np.float32), groups=("a", "b"), **extra)


def _metrics():
    yield _plain()
    families = ("cov", "slbp+r2+tt", "cov@0.5", "slbp@0.5:30x40")
    whole = Extractor.over(families, n_regions=6, frame=Frame(40, 56))
    sizes = np.repeat([part.family.size for part in whole.parts], [len(part.regions) for part in whole.parts])
    rng, n, groups = np.random.default_rng(0), int(sizes.sum()), len(sizes)
    rows = np.repeat(np.arange(groups), 2)
    basis = Basis(
        columns=np.arange(n),
        n_features=n,
        groups=tuple(map(str, range(groups))),
        mean=np.zeros(n, np.float32),
        values=rng.standard_normal(int(2 * sizes.sum())).astype(np.float32),
        rows=rows,
        owners=np.repeat(np.arange(groups), sizes),
        eigenvalues=rng.uniform(0.5, 2, len(rows)),
        normalise="root",
        weigh=0.5,
    )
    fields = {"threshold": 2.0, "calibration": CALIBRATION, "extractor": whole.to_json(), "normalise": "root"}
    components = rng.standard_normal((5, len(rows))).astype(np.float32)
    flip_free = Metric(basis, components, mirror="distances", **fields)
    yield flip_free
    similarity = Similarity(rng.standard_normal((2, len(rows))), np.zeros(2), np.array([0.2, 0.9]))
    yield replace(flip_free, mirror="mean", similarity=similarity)


def _spoilt_arrays(rng, arrays):
    arrays = dict(arrays)
    for _ in range(rng.choice([1, 1, 2])):
        name = rng.choice(sorted(arrays))
        array, kind = copy.deepcopy(arrays[name]), rng.random()
        if kind < 0.5 and array.size:
            value = rng.choice([np.nan, np.inf, 1e38, -1e38, 1e30, 1e300, 0, -1, 1, 2**62, -(2**63), 1e-300])
            with np.errstate(all="ignore"):
                try:
                    array.flat[rng.randrange(array.size)] = array.dtype.type(value)
                except (OverflowError, ValueError):
                    array.flat[0] = 0
                if rng.random() < 0.3:
                    array = np.full_like(array, array.flat[0])
        elif kind < 0.65:
            with np.errstate(all="ignore"):
                array = array.astype(rng.choice(DTYPES))
        elif kind < 0.8:
            array = rng.choice(
                [array[:-1], array[:0], array[np.newaxis], array.reshape(-1), np.concatenate([array] * 2)]
            )
        elif kind < 0.9:
            del arrays[name]
            continue
        else:
            arrays[rng.choice(["components", "basis.mean", "basis.rows", "similarity.shift", "sha257"])] = array
        arrays[name] = np.ascontiguousarray(array)
    return arrays
