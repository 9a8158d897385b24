"""Short codes of faces: how well unseen people are found and verified by at most 151 numbers, on LFW's View 1.

From a folder that `samekind lfw --view 1` (or `--view 2`) has left come step 1's metrics of View 1. Codes of each kind
(a distance, a similarity, the sum of both) are learned on all its families together, from View 1's training people.

Queries are the pictures of View 1's official test pairs that show somebody with three of them or more: 477. They search
each other (map_q), and each other among the training people's pictures (map_ql). All pairs of the test people's
pictures are verified as well, people counting alike.

KIND_map_q, KIND_map_ql   mean average precision; of the distance at least 0.64 and 0.55
KIND_auc, KIND_accuracy, KIND_tmr_...
                          area under the ROC curve, accuracy at the best threshold, and true match rates at false match
                          rates of 1e-2 and 1e-3

`--own` judges the metrics of step 2 as they are in WORK, of each family and of all, instead of short codes.

`--store` is the one that `samekind lfw` had. `--quick` lets `samekind lfw` learn from a few people first: too few to
hold more than that every kind was learned (`kinds`).
"""

from __future__ import annotations

import json
import sys
import tempfile
from argparse import Namespace
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
from harness import Report, parser
from lfw_baselines import Split, small_work
from lfwdata import DATA

from samekind.estimators.use import as_learned_from, reading
from samekind.evaluation import evaluate_codes, evaluate_retrieval
from samekind.lfw.faces import Faces
from samekind.lfw.learning import Learner
from samekind.lfw.protocol import image_rows
from samekind.lfw.protocol_files import Image
from samekind.lfw.workplace import MADE_WITH
from samekind.model.metric import Metric
from samekind.store import DiskStore

LENGTH = 150  # and a number of the similarity
KINDS = ("distance", "similarity", "sum")
HELD = {"map_q": 0.64, "map_ql": 0.55}
FEWEST = 3  # pictures of a query's person among the queries
MEMORY = "2GB"


def families_of(folder: Path) -> tuple[str, ...]:
    """Those of which step 1 is there, in the order in which they were learned."""
    names = {
        path.name.removeprefix("step1-").removesuffix(".safetensors") for path in folder.glob("step1-*.safetensors")
    }
    entries = json.loads((folder / MADE_WITH).read_text())
    known = [key.removeprefix("descriptors.") for key in entries if key.startswith("descriptors.")]
    return tuple(name for name in known if name in names)


def query_images(split: Split) -> list[Image]:
    shown = {image for pair in split.run.split.test.pairs for image in pair}
    counts = Counter(image.person for image in shown)
    return sorted(image for image in shown if counts[image.person] >= FEWEST)


def judged(metric: Metric, store: DiskStore, split: Split, report: Report, kind: str, held: bool) -> None:
    found, view = reading(metric, store)
    view, names = as_learned_from(view, metric.mirror), store.image_ids.tolist()
    known = set(names)
    rows = {
        "queries": image_rows(query_images(split), names),
        "training": image_rows(split.run.training_images, names),
        "test": image_rows([image for image in split.run.split.test.images if image.file_name() in known], names),
    }
    codes = {name: found.transform(view, own) for name, own in rows.items()}
    labels = {name: store.labels[own] for name, own in rows.items()}
    by = metric.distance_function
    print(f"{kind}: {codes['queries'].shape[1]} numbers, {len(rows['queries'])} queries", flush=True)
    figures = evaluate_retrieval(codes["queries"], labels["queries"], distractors=codes["training"], distance=by)
    assert figures.injected is not None
    for name, of in (("map_q", figures.inside), ("map_ql", figures.injected)):
        value = float(np.mean(of.average_precision))
        if held and kind == "distance":
            report.hold(f"{kind}_{name}", value, at_least=HELD[name])
        else:
            report.note(f"{kind}_{name}", value)
    verified = evaluate_codes(codes["test"], labels["test"], distance=by)
    roc = verified.roc
    report.note(f"{kind}_auc", 100 * roc.auc)
    report.note(f"{kind}_accuracy", 50 * float((1 + roc.true_match_rate - roc.false_match_rate).max()))
    for far in (1e-2, 1e-3):
        report.note(f"{kind}_tmr_{far:g}", 100 * roc.true_match_rate_at(far))


def run(given: Namespace, work: Path, protocol: Path, store: Path, name: str) -> None:
    split, report = Split.named(name, work, protocol), Report("lfw_codes")
    families, opened = families_of(split.folder), DiskStore.open(store)
    if not families:
        sys.exit(f"{split.folder} has no step 1: run samekind lfw first.")
    settings = split.settings
    faces = Faces(opened, families, settings.regions, settings.roots)
    firsts = {family: Metric.load(split.folder / f"step1-{family}.safetensors") for family in families}
    if given.own:
        for path in sorted(split.folder.glob("step2-*.safetensors")):
            of = path.name.removeprefix("step2-").removesuffix(".safetensors")
            judged(Metric.load(path), opened, split, report, of if of in families else "all", held=False)
        report.end()
    for kind in KINDS:
        own = replace(settings, learner=dict(settings.learner) | {"compare_by": kind, "n_components": LENGTH})
        with tempfile.TemporaryDirectory() as checkpoint:
            metric, _ = Learner.from_run(split.run, faces, own, MEMORY, None).step2(firsts, Path(checkpoint), None)
        judged(metric, opened, split, report, kind, held=not given.quick)
    report.hold("kinds", len(KINDS), at_least=len(KINDS))
    report.end()


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--work", type=Path, metavar="DIR", help="what `samekind lfw` has left")
    options.add_argument("--store", type=Path, metavar="DIR", help="the store that it had; WORK/store by default")
    options.add_argument("--own", action="store_true", help="judge the metrics of WORK as they are")
    given = options.parse_args()
    if not (given.work or given.quick):
        sys.exit("Give --work, a folder that `samekind lfw` has left, or --quick.")
    with ExitStack() as stack:
        work, protocol, name = given.work, DATA / "protocol", "view1"
        if given.quick:
            work, protocol = small_work(Path(stack.enter_context(tempfile.TemporaryDirectory())))
            name = "fold-01"
        run(given, work, protocol, given.store or work / "store", name)


if __name__ == "__main__":
    main()
