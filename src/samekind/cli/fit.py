"""`samekind fit`"""

import errno
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from samekind.cli.described import describe_usage, distance_in_words, usage_facts
from samekind.cli.options import FitClusterOptions, LearnerOptions, MemoryOption, PresetOption, RunOptions
from samekind.cli.output import (
    check_writable,
    duration,
    plural,
    say_facts,
    say_json,
    say_list,
)
from samekind.cli.progress import fit_progress, interruptible

if TYPE_CHECKING:
    from samekind.kernels.types import IntArray
    from samekind.model.metric import Metric
    from samekind.store import DiskStore

FEWEST_LABELS = 2  # that can be distinguished
MOST_TRIED = 8  # that are printed
GOES_ON = "The same command goes on from the last round that was finished"
NOT_KEPT = "No model was written. With --checkpoint DIR, a fit that is interrupted can be gone on with."


def fit(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="Folder that `samekind extract` wrote.")],
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="File for the model, such as faces.safetensors.")],
    *,
    preset: PresetOption = "pictures",
    learning: LearnerOptions,
    hold_out: Annotated[
        float | None,
        typer.Option(
            "--hold-out",
            help="Share of the labels that are not learned from, to judge and calibrate the model on, such as 0.2. "
            "Default: all are learned from, and the model is calibrated by cross-fitting over labels.",
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint",
            metavar="DIR",
            help="Folder to keep each finished round in: the same command, run again, goes on from the last one.",
        ),
    ] = None,
    memory: MemoryOption = "1GB",
    unchecked: Annotated[
        bool,
        typer.Option(
            "--unchecked",
            help="Do not compare the store with its checksums while it is read.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of all that is drawn at random.")] = 0,
    computing: FitClusterOptions,
    running: RunOptions,
) -> None:
    """Learn from a store when two pictures show the same kind, and write it as a model.

    Chooses, for each family of descriptors, the regions that tell the labels apart, and joins them into a code:
    pictures of the same label come close. The model is one file, which `samekind verify`, `encode` and `evaluate` use
    without the store. It stores how pictures are compared, and what a distance means: threshold, probability of
    "same", thresholds at false match rates.

    --preset names a set of settings. pictures: chosen to suit the data, on labels left out; faces: the same, a
    picture and its mirror image counting as one; paper: the paper's. --set name=value changes any setting, such as
    --set loss=triplet or --set joint__ridge=1; a name that is not known lists those that are.

    Without --hold-out all labels are learned from in the end; settings are chosen, and the model is calibrated, on
    labels that are left out in turn. With --hold-out 0.2 a fifth of the labels take no part in anything but the
    calibration, and it is reported how well the model tells them apart.

    With --checkpoint DIR a fit that was stopped, be it by Ctrl-C or killed, loses one round at most: the same command
    goes on with it. The folder may be deleted when the model is there.

    With --scheduler ADDRESS the workers of a Dask cluster compute, with --workers N so many processes of this machine:
    the model is the same, bit by bit.

    Example: samekind fit faces.store faces.safetensors --preset faces

    Example: samekind fit faces.store faces.safetensors --hold-out 0.2 --checkpoint faces.fit

    Example: samekind fit faces.store faces.safetensors --scheduler tcp://10.0.0.1:8786 --checkpoint faces.fit

    Example: samekind fit parts.store small.safetensors --max-groups 20 --components 32 --set loss=triplet
    """
    started = time.perf_counter()
    check_writable(model)
    if checkpoint is not None:
        _check_folder(checkpoint, model)

    from samekind.estimators.presets import PRESETS, changed, learner
    from samekind.extraction import with_roots
    from samekind.store import DiskStore, ReadOptions

    given = learning.settings()
    settings = changed(PRESETS[preset], learning.changes or ()) | given
    made = learner(settings, checkpoint=checkpoint, memory_budget=memory, n_jobs=running.jobs, random_state=seed)
    opened = DiskStore.open(store, n_jobs=running.jobs, options=ReadOptions(verify=not unchecked))
    train, held = _split(opened, hold_out, seed)
    features: Any = with_roots(opened) if settings["roots"] and opened.front_end else opened
    with (
        warnings.catch_warnings(record=True) as caught,
        interruptible(NOT_KEPT if checkpoint is None else f"{GOES_ON}, kept in {checkpoint}."),
        fit_progress(not running.quiet) as listen,
        computing.around(running.jobs),
    ):
        warnings.simplefilter("always", UserWarning)
        made.set_params(callback=listen)
        if opened.complete:
            made.fit(features, opened.labels, rows=train)
        else:
            made.fit(opened, opened.labels)  # which refuses it, and says why
        if held is not None:
            made.calibrate(features, opened.labels, rows=held)
    metric = replace(made.metric_, attributes=dict(made.metric_.attributes) | {"preset": preset})
    metric.save(model)
    result = {
        "kind": "model",
        "path": str(model),
        "preset": preset,
        "groups": _per_family(opened, made.selected_groups_),
        **describe_usage(metric),
        "calibration": None if metric.calibration is None else metric.calibration.to_json(),
        "calibration_in_words": [] if metric.calibration is None else metric.calibration.describe(),
        "tried": [trial.record() for trial in made.trials_],
        "images": len(train),
        "labels": len(set(opened.labels[train])),
        "hold_out": None if held is None else _held_out(metric, features, opened.labels, held),
        "warnings": list(dict.fromkeys(str(each.message) for each in caught)),
        "seconds": round(time.perf_counter() - started, 3),
    }
    if running.json:
        say_json(result)
    else:
        _say_result(result)


def _check_folder(folder: Path, model: Path) -> None:
    """Refuse before the work a folder that could not be made or written into, or would be where the model is to be."""
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not there.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "A checkpoint is a folder; this is a file", str(there))
    if model.resolve() in (folder.resolve(), *folder.resolve().parents):
        raise ValueError(f"--checkpoint {folder} is a folder, but the model is to be the file {model}: name another.")
    try:
        check_writable(there / ".samekind-checkpoint")
    except OSError as error:
        error.filename = str(there)  # which was given: nobody knows the file that was tried
        raise


def _split(store: "DiskStore", share: float | None, seed: int) -> tuple["IntArray", "IntArray | None"]:
    """Rows to learn from, and rows of the labels that are held out."""
    import numpy as np

    if share is None or not store.complete:  # the learner refuses an unfinished store, and says why
        return np.arange(len(store)), None
    if not 0 < share < 1:
        raise ValueError(f"--hold-out {share:g} must be a share of the labels between 0 and 1, such as 0.2.")
    names = np.unique(store.labels)
    n_held = round(share * len(names))
    held = np.isin(store.labels, np.random.default_rng(seed).permutation(names)[:n_held])
    if min(n_held, len(names) - n_held) < FEWEST_LABELS:
        raise ValueError(
            f"--hold-out {share:g} keeps {n_held} of {plural(len(names), 'label')} out: both parts need at least "
            f"{FEWEST_LABELS}. Give another share, or more labels."
        )
    if len(set(store.labels[held])) == held.sum():
        raise ValueError(
            f"--hold-out {share:g} keeps out {plural(n_held, 'label')} with one picture each, so there is no pair of "
            "the same label among them. Give a larger share, or another --seed."
        )
    return np.flatnonzero(~held), np.flatnonzero(held)


def _held_out(metric: "Metric", store: Any, labels: Any, held: "IntArray") -> dict[str, Any]:
    """How well the model tells labels apart that it has not learned from."""
    from samekind.estimators.use import codes_in_use
    from samekind.evaluation import evaluate_codes

    judged = evaluate_codes(
        codes_in_use(metric, store, held),
        labels[held],
        distance=metric.distance_function,
        calibration=metric.calibration,
        threshold=metric.threshold,
    )
    return judged.to_json() | {"threshold_chosen_on_these_pairs": True}


def _per_family(store: "DiskStore", chosen: "IntArray") -> dict[str, int]:
    return {family: sum(int(k) in groups for k in chosen) for family, groups in store.families.items()}


def _say_result(result: dict[str, Any]) -> None:
    held = result["hold_out"]
    say_facts(
        [
            ("Model", result["path"]),
            ("Learned from", f"{plural(result['images'], 'image')} of {plural(result['labels'], 'label')}"),
            *((f"Family {name}", f"{plural(n, 'region')} chosen") for name, n in result["groups"].items()),
            *usage_facts(result),
            ("Threshold", f"{result['threshold']:.6g} (even odds; {distance_in_words(result['similarity'])})"),
            *([] if held is None else _held_facts(held)),
            ("Time", duration(result["seconds"])),
        ]
    )
    say_list("Calibration", result["calibration_in_words"])
    say_list("Tried on labels left out, best first", _tried(result["tried"]), MOST_TRIED, "--json shows all")
    say_list("Warnings", result["warnings"])


def _tried(trials: list[dict[str, Any]]) -> list[str]:
    """The best normalisation of each candidate."""
    best: dict[str, dict[str, Any]] = {}
    for trial in sorted(trials, key=lambda trial: -trial["score"]):
        best.setdefault(trial["candidate"], trial)
    return [
        f"AUC {trial['auc']:.4f}, mAP {trial['mean_average_precision']:.4f}: {name}, codes {trial['normalise']}"
        for name, trial in best.items()
    ]


def _held_facts(held: dict[str, Any]) -> list[tuple[str, object]]:
    accuracy, eer, auc = (held["measures"][name]["value"] for name in ("accuracy", "eer", "auc"))
    return [
        (
            "Held out",
            f"{plural(held['n_samples'], 'image')} of {plural(held['n_classes'], 'label')} that were not learned from",
        ),
        ("Accuracy", f"{accuracy:.1%} (the threshold was chosen on these labels, so slightly optimistic)"),
        ("Equal error", f"{eer:.1%}"),
        ("AUC", f"{auc:.4f}"),
    ]
