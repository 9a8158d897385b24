"""`samekind verify`"""

import io
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from samekind.cli.described import remarks
from samekind.cli.options import JsonOption, LandmarksOption, ModelArgument, SeveralOption
from samekind.cli.output import check_writable, say_facts, say_json, say_list
from samekind.cli.pictures import encoder_of, landmarks_for

if TYPE_CHECKING:
    from samekind.images.align import Aligned
    from samekind.kernels.types import Array
    from samekind.model.encoder import Encoder
    from samekind.model.metric import Metric

DIFFERENT = 1  # exit status
SHOWN = 5  # regions of an explanation


def verify(
    model: ModelArgument,
    a: Annotated[Path, typer.Argument(metavar="A", help="A picture.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Another picture.")],
    far: Annotated[
        float | None,
        typer.Option("--far", help="False match rate to keep, such as 1e-3: the share of different pairs called same."),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option("--threshold", help="Distance, as printed, up to which they are the same; the model's."),
    ] = None,
    prior: Annotated[
        float,
        typer.Option("--prior", help="Share of the pairs that are the same, before looking: for the probability."),
    ] = 0.5,
    explain: Annotated[
        Path | None,
        typer.Option("--explain", metavar="PNG", help="Draw which regions speak for the same, and which against it."),
    ] = None,
    landmarks: LandmarksOption = None,
    several: SeveralOption = "error",
    json: JsonOption = False,
) -> None:
    """Say whether two pictures show the same kind: the same person, for a model of faces.

    Prints the answer, the probability of "same", and what the threshold means. How pictures are compared (mirror
    images, distance) is the model's own. The exit status is 0 for the same, 1 for different, and another, mostly
    2, when there is no answer, for example because a picture cannot be used.

    The model's threshold is that of even odds. --far 1e-3 asks for one that calls a thousandth of different pairs the
    same; it is refused where the model was calibrated on too few labels for that.

    --explain draws both pictures with the regions that speak for "same" and against it, the strongest first, and says
    how many of them can be left out before the answer changes. What all regions add sums to the distance exactly.

    Example: samekind verify faces.safetensors anna.jpg unknown.jpg && echo "It is Anna."

    Example: samekind verify faces.safetensors anna.jpg unknown.jpg --far 1e-3

    Example: samekind verify faces.safetensors anna.jpg unknown.jpg --explain why.png
    """
    from samekind.model.metric import Metric
    from samekind.service.answers import verify_answer

    if far is not None and threshold is not None:
        raise ValueError("--far and --threshold both say where same ends: give one of them.")
    if explain is not None:
        if explain.suffix.lower() != ".png":
            raise ValueError(f"--explain {explain} is drawn as a PNG picture: give a name that ends in .png.")
        check_writable(explain)
    metric = Metric.load(model)
    limit = _threshold(metric, threshold, far, model)
    points = landmarks_for(landmarks, {str(a): a, str(b): b})
    encoder = encoder_of(metric, landmarks=points, several=several)
    aligned = [encoder.aligned(each, str(each)) for each in (a, b)]
    features = [encoder.describe(each) for each in aligned]
    codes = encoder.codes(features)
    distance = float(metric.code_distance(codes[:1], codes[1:])[0])
    result = {
        "a": str(a),
        "b": str(b),
        **verify_answer(metric, distance, limit, prior),
        "notes": {str(path): each.notes for path, each in zip((a, b), aligned, strict=True) if each.notes},
    }
    if explain is not None:
        result["explanation"] = _explain(metric, encoder, aligned, features, limit, explain)
    if json:
        say_json(result)
    else:
        _say_result(result, metric)
    if not result["same"]:
        raise typer.Exit(DIFFERENT)


def _threshold(metric: "Metric", given: float | None, far: float | None, model: Path) -> float:
    if far is not None:
        if metric.calibration is None:
            raise ValueError(
                f"{model} is not calibrated, so it knows no false match rates: fit it again (samekind fit), or give "
                "--threshold."
            )
        return float(metric.calibration.threshold_at(far))
    limit = metric.threshold if given is None else given
    if limit is None:
        raise ValueError(f"{model} has no threshold, so it cannot say same or different: give --threshold.")
    if math.isnan(limit):
        raise ValueError("--threshold is not a number: give a squared distance.")
    return limit


def _explain(
    metric: "Metric", encoder: "Encoder", aligned: "list[Aligned]", features: "list[Array]", limit: float, path: Path
) -> dict[str, Any]:
    """Draw it, and give it as JSON."""
    from samekind.evaluation import ExplanationDisplay
    from samekind.files import write_whole
    from samekind.model.explanation import explain_features

    made = explain_features(metric, features[0], features[1], limit, encoder.extractor.rectangles())
    pictures = aligned[0].picture, aligned[1].picture
    drawn = ExplanationDisplay(pictures, made, margin=encoder.extractor.frame.margin).plot()
    file = io.BytesIO()
    drawn.figure_.savefig(file, format="png", dpi=120)
    write_whole(path, file.getvalue())
    return made.to_json() | {"picture": str(path)}


def _kind(metric: "Metric") -> str:
    return "squared" if metric.similarity is None else "with a similarity term; it may be negative"


def _say_result(result: dict[str, Any], metric: "Metric") -> None:
    probability, rate = result["probability"], result["false_match_rate"]
    meaning = "" if rate is None else f"; about {rate:.2g} of different pairs are at most so far apart"
    given = f"if {result['prior']:.0%} of such pairs are"
    say_facts(
        [
            ("Answer", "same" if result["same"] else "different"),
            *([] if probability is None else [("Probability", f"{probability:.1%} that they are the same, {given}")]),
            ("Distance", f"{result['distance']:.6g} ({_kind(metric)})"),
            ("Threshold", f"{result['threshold']:.6g}{meaning}"),
        ]
    )
    explanation = result.get("explanation")
    if explanation is not None:
        strongest = [f"{each['evidence']:+.4g}  {each['group']}" for each in explanation["regions"][:SHOWN]]
        title = f"Why: + speaks for same, - against it; drawn in {explanation['picture']}"
        say_list(title, [explanation["in_words"], *strongest])
    calibration = metric.calibration
    if calibration is not None:
        say_list("What this rests on", calibration.describe()[:2])
    say_list("Remarks", remarks(result["notes"]))
