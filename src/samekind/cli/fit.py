"""`samekind fit`"""

import errno
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

from samekind.cli.described import normalisation_facts
from samekind.cli.options import JobsOption, JsonOption, QuietOption, parse_anchors, parse_ridge
from samekind.cli.output import (
    SECONDS_PER_LINE,
    check_writable,
    duration,
    plural,
    say_error,
    say_facts,
    say_json,
    say_list,
)

if TYPE_CHECKING:
    from samekind.estimators import EnsembleMetric
    from samekind.evaluation import VerificationResult
    from samekind.kernels.types import IntArray
    from samekind.solvers.events import Observer
    from samekind.store import DiskStore

FEWEST_LABELS = 2  # that can be told apart
INTERRUPTED = 130  # exit status, as that of every verb
TITLES = {"selection": "Choosing regions", "joint": "Learning the joint metric"}


def fit(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="Folder that `samekind extract` wrote.")],
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="File for the model, such as faces.safetensors.")],
    loss: Annotated[
        Literal["pairwise", "triplet"],
        typer.Option("--loss", help="pairwise: same or not, for verification; triplet: nearest first, for retrieval."),
    ] = "pairwise",
    max_groups: Annotated[
        int | None, typer.Option("--max-groups", min=1, help="Regions chosen per family. Default: at most 400.")
    ] = None,
    components: Annotated[
        int | None, typer.Option("--components", min=1, help="Length of the code. Default: what the data ask for.")
    ] = None,
    ridge: Annotated[str, typer.Option("--ridge", help="Strength of the penalty: auto or a number.")] = "auto",
    threshold: Annotated[
        float | None,
        typer.Option("--threshold", help="Of pairwise: the squared distance between same and different. Default: 14."),
    ] = None,
    pair_balance: Annotated[
        Literal["equal", "samples", "literal"] | None,
        typer.Option(
            "--pair-balance",
            help="Of pairwise: how pairs weigh. equal: those of one label and of two half each; samples: the same, but "
            "labels with many pictures do not drown the others; literal: each pair alike. Default: equal.",
        ),
    ] = None,
    beta: Annotated[
        float | None, typer.Option("--beta", help="Of triplet: how sharply a wrong order counts. Default: 1e6.")
    ] = None,
    neighbors: Annotated[
        int | None,
        typer.Option("--neighbors", min=1, help="Of triplet: nearest of the label that are to be near. Default: all."),
    ] = None,
    whiten: Annotated[
        int | None, typer.Option("--whiten", min=0, help="Dimensions kept per region; 0 for no whitening. Default: 45.")
    ] = None,
    normalise: Annotated[
        Literal["none", "root", "unit"],
        typer.Option(
            "--normalise",
            help="Divide each code by the square root of its length (root), or by its length (unit, so that distances "
            "are those of the cosine). Without --hold-out the threshold is then chosen on the pictures learned from.",
        ),
    ] = "none",
    normalise_groups: Annotated[
        Literal["none", "root", "unit"],
        typer.Option(
            "--normalise-groups",
            help="Divide what is read of each region by (the square root of) its length before regions are joined, so "
            "that none counts for too much where something covers it.",
        ),
    ] = "none",
    hold_out: Annotated[
        float | None,
        typer.Option("--hold-out", help="Share of the labels kept out, to choose the threshold on: 0.2, for example."),
    ] = None,
    search: Annotated[
        Literal["auto", "fast", "exact"],
        typer.Option(
            "--search",
            help="How regions are chosen. exact: the paper's algorithm to the letter; fast, for many regions: all are "
            "looked at in a sketch, and the metric of one is learned on a sample of pairs; auto: fast where it pays.",
        ),
    ] = "auto",
    anchors: Annotated[
        str,
        typer.Option(
            "--anchors",
            help="Pictures that all others are compared with in the joint step. all; grow: few at first, all in the "
            "end; a number: no more than these, and the error is estimated; or auto.",
        ),
    ] = "auto",
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint",
            metavar="DIR",
            help="Folder to keep each finished round in: the same command, run again, goes on from the last one.",
        ),
    ] = None,
    memory: Annotated[str, typer.Option("--memory", help="Memory for pairs of pictures, such as 2GB.")] = "1GB",
    jobs: JobsOption = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of all that is drawn at random.")] = 0,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Learn from a store when two pictures show the same kind, and write it as a model.

    Chooses, for each family of descriptors, the regions that tell the labels apart, and joins them into a short code:
    pictures of the same label come close. The model is one file, which `samekind encode` and `samekind verify` use
    without the store.

    With --hold-out 0.2 a fifth of the labels (people, say) take no part in the learning: the model's threshold is
    chosen on pairs of their pictures, and it is reported how well it tells them apart.

    With --checkpoint DIR a fit that was stopped, be it by Ctrl-C or killed, loses one round at most: the same command
    goes on with it. The folder may be deleted when the model is there.

    Example: samekind fit faces.store faces.safetensors --hold-out 0.2

    Example: samekind fit faces.store faces.safetensors --checkpoint faces.fit

    Example: samekind fit faces.store small.safetensors --max-groups 50 --components 32
    """
    started = time.perf_counter()
    options = _loss_options(loss, threshold, pair_balance, beta, neighbors) | {
        "max_groups": max_groups,
        "n_components": components,
        "ridge": parse_ridge(ridge),
        "whiten": "auto" if whiten is None else whiten or None,
        "normalise": normalise,
        "normalise_groups": normalise_groups,
        "search": search,
        "anchors": parse_anchors(anchors),
        "checkpoint": checkpoint,
        "memory_budget": memory,
        "n_jobs": jobs,
        "random_state": seed,
    }
    check_writable(model)
    if checkpoint is not None:
        _check_folder(checkpoint, model)

    from samekind.estimators import EnsembleMetric
    from samekind.estimators.validation import max_groups_from, ridge_from
    from samekind.store import DiskStore

    features = DiskStore.open(store, n_jobs=jobs)
    # The learner checks these too, but only after it has whitened all descriptors, which takes long.
    ridge_from(options["ridge"], 1)
    for family, groups in features.families.items():
        max_groups_from(max_groups, len(groups), family)
    train, held = _split(features, hold_out, seed)
    with (
        warnings.catch_warnings(record=True) as caught,
        _interruptible(checkpoint),
        _listening(not quiet) as listen,
    ):
        warnings.simplefilter("always", UserWarning)
        learner = EnsembleMetric(**options, callback=listen).fit(features, features.labels, rows=train)
    verified = None if held is None else _verified(learner, features, held, seed)
    metric = learner.metric_ if verified is None else learner.metric_.with_threshold(verified.threshold)
    metric.save(model)
    result = {
        "kind": "model",
        "path": str(model),
        "groups": _per_family(features, learner.selected_groups_),
        "n_components": metric.n_components,
        "normalise": metric.normalise,
        "normalise_groups": metric.normalise_groups,
        "threshold": metric.threshold,
        "images": len(train),
        "labels": len(set(features.labels[train])),
        "hold_out": None if verified is None or held is None else _held_out(features, held, verified),
        "converged": bool(learner.converged_),
        "warnings": list(dict.fromkeys(str(each.message) for each in caught)),
        "seconds": round(time.perf_counter() - started, 3),
    }
    if json:
        say_json(result)
    else:
        _say_result(result)


def _loss_options(
    loss: str, threshold: float | None, pair_balance: str | None, beta: float | None, neighbors: int | None
) -> dict[str, Any]:
    """Parameters of the loss that were given; an option of the other loss would be without effect."""
    own: dict[str, dict[str, Any]] = {
        "pairwise": {"threshold": threshold, "pair_balance": pair_balance},
        "triplet": {"beta": beta, "n_neighbors": neighbors},
    }
    names = {
        "threshold": "--threshold",
        "pair_balance": "--pair-balance",
        "beta": "--beta",
        "n_neighbors": "--neighbors",
    }
    for other, options in own.items():
        for name, value in options.items():
            if other != loss and value is not None:
                raise ValueError(f"{names[name]} belongs to --loss {other}, but the loss is {loss}: leave it out.")
    return {"loss": loss} | {name: value for name, value in own[loss].items() if value is not None}


def _check_folder(folder: Path, model: Path) -> None:
    """Refuse before the work a folder that could not be made or written into, or would be where the model is to be."""
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not there.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "A checkpoint is a folder; this is a file", str(there))
    if model.resolve() in (folder.resolve(), *folder.resolve().parents):
        raise ValueError(f"--checkpoint {folder} is a folder, but the model is to be the file {model}: name another.")
    check_writable(there / ".samekind-checkpoint")


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


def _verified(learner: "EnsembleMetric", store: "DiskStore", held: "IntArray", seed: int) -> "VerificationResult":
    """The best threshold on balanced pairs of the labels held out, and what it reaches on them."""
    from samekind.evaluation import verify_codes

    return verify_codes(learner.transform(store, rows=held), store.labels[held], random_state=seed)


def _held_out(store: "DiskStore", held: "IntArray", verified: "VerificationResult") -> dict[str, Any]:
    return {
        "images": len(held),
        "labels": len(set(store.labels[held])),
        "pairs": verified.n_same + verified.n_other,
        "accuracy": verified.accuracy,
        "eer": verified.eer,
        "auc": verified.auc,
        "threshold_chosen_on_these_pairs": True,
    }


def _per_family(store: "DiskStore", chosen: "IntArray") -> dict[str, int]:
    return {family: sum(int(k) in groups for k in chosen) for family, groups in store.families.items()}


def _say_result(result: dict[str, Any]) -> None:
    held = result["hold_out"]
    say_facts(
        [
            ("Model", result["path"]),
            ("Learned from", f"{plural(result['images'], 'image')} of {plural(result['labels'], 'label')}"),
            *((f"Family {name}", f"{plural(n, 'region')} chosen") for name, n in result["groups"].items()),
            ("Code length", result["n_components"]),
            *normalisation_facts(result),
            ("Threshold", f"{result['threshold']:.6g} (squared distance{', chosen on the pairs below' * bool(held)})"),
            *([] if held is None else _held_facts(held)),
            ("Time", duration(result["seconds"])),
        ]
    )
    say_list("Warnings", result["warnings"])


def _held_facts(held: dict[str, Any]) -> list[tuple[str, object]]:
    return [
        ("Held out", f"{held['pairs']:,} pairs of {held['images']:,} images of {held['labels']:,} unseen labels"),
        ("Accuracy", f"{held['accuracy']:.1%} (the threshold was chosen on these pairs, so a little flattered)"),
        ("Equal error", f"{held['eer']:.1%}"),
        ("AUC", f"{held['auc']:.4f}"),
    ]


@contextmanager
def _listening(shown: bool) -> Iterator["Observer | None"]:
    """A bar per step on stderr, as stdout is for results; where no one watches, a line now and then."""
    if not shown:
        yield None
        return
    from samekind.estimators.progress import ProgressBars, ProgressLines

    console = Console(stderr=True)
    with (
        ProgressBars(console, TITLES, first="Reading descriptors")
        if console.is_terminal
        else ProgressLines(console, TITLES, SECONDS_PER_LINE)
    ) as display:
        yield display


@contextmanager
def _interruptible(checkpoint: Path | None) -> Iterator[None]:
    """Say after Ctrl-C what became of the work, where it was kept."""
    try:
        yield
    except KeyboardInterrupt as error:
        if checkpoint is None:
            raise
        say_error(f"interrupted. The same command goes on from the last round that was finished, kept in {checkpoint}.")
        raise typer.Exit(INTERRUPTED) from error
