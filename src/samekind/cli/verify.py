"""`samekind verify`"""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from samekind.cli.described import remarks
from samekind.cli.options import FlipFreeOption, JsonOption, LandmarksOption, MirrorMeanOption, SeveralOption
from samekind.cli.output import say_facts, say_json, say_list
from samekind.cli.pictures import encoder_of, flips, landmarks_for

if TYPE_CHECKING:
    from samekind.model.encoder import FlipFree
    from samekind.kernels.types import Array
    from samekind.model.metric import Metric

DIFFERENT = 1  # exit status


def verify(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="File that `samekind fit` wrote.")],
    a: Annotated[Path, typer.Argument(metavar="A", help="A picture.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Another picture.")],
    threshold: Annotated[
        float | None, typer.Option("--threshold", help="Squared distance up to which they are the same; the model's.")
    ] = None,
    flip_free: FlipFreeOption = False,
    mirror_mean: MirrorMeanOption = False,
    landmarks: LandmarksOption = None,
    several: SeveralOption = "error",
    json: JsonOption = False,
) -> None:
    """Say whether two pictures show the same kind: the same person, for a model of faces.

    Prints their squared distance and the threshold. The exit status is 0 for the same, 1 for different, and 2 when it
    cannot be told, because a picture cannot be used, for example.

    The model's threshold belongs to plain distances; those of --flip-free are somewhat larger, those of --mirror-mean
    smaller, so it is better to give --threshold with either.

    Example: samekind verify faces.safetensors anna.jpg unknown.jpg && echo "It is Anna."
    """
    from samekind.model.metric import Metric

    mirrors = flips(flip_free, mirror_mean)
    metric = Metric.load(model)
    limit = _threshold(metric, threshold, model)
    pictures = {str(a): a, str(b): b}
    points = landmarks_for(landmarks, pictures)
    encoder = encoder_of(metric, flip_free=mirrors, landmarks=points, several=several)
    encoded = encoder.encode_each([(a, str(a)), (b, str(b))])
    distance = _distance(encoded.codes, mirrors)
    same = distance <= limit
    result = {
        "a": str(a),
        "b": str(b),
        "distance": distance,
        "threshold": limit,
        "same": same,
        "flip_free": mirrors,
        "notes": encoded.notes,
    }
    if json:
        say_json(result)
    else:
        _say_result(result)
    if not same:
        raise typer.Exit(DIFFERENT)


def _threshold(metric: "Metric", given: float | None, model: Path) -> float:
    limit = metric.threshold if given is None else given
    if limit is None:
        raise ValueError(f"{model} has no threshold, so it cannot say same or different: give --threshold.")
    if math.isnan(limit):
        raise ValueError("--threshold is not a number: give a squared distance.")
    return limit


def _distance(codes: "Array", flip_free: "FlipFree") -> float:
    """Squared, of two codes."""
    from samekind.evaluation import flip_free_distances, pair_distances

    if flip_free is True:
        return float(flip_free_distances(codes[:1], codes[1:])[0])
    return float(pair_distances(codes, [[0, 1]])[0])


def _say_result(result: dict[str, Any]) -> None:
    say_facts(
        [
            ("Answer", "same" if result["same"] else "different"),
            ("Distance", f"{result['distance']:.6g} (squared{', flip-free' * bool(result['flip_free'])})"),
            ("Threshold", f"{result['threshold']:.6g}"),
        ]
    )
    say_list("Remarks", remarks(result["notes"]))
