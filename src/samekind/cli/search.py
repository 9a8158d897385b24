"""`samekind search`"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from samekind.cli.described import remarks
from samekind.cli.options import GalleryArgument, JsonOption, LandmarksOption, SeveralOption
from samekind.cli.output import say_facts, say_json, say_list
from samekind.cli.pictures import encoder_of, landmarks_for

if TYPE_CHECKING:
    from samekind.gallery import Answer
    from samekind.model.metric import Metric

NONE = 1  # exit status: no entry is within the threshold
WANTED_CHANCE = 0.01  # of any false match, for which a threshold is looked up


def search(
    gallery: GalleryArgument,
    image: Annotated[Path, typer.Argument(metavar="IMAGE", help="A picture.")],
    k: Annotated[int, typer.Option("-k", min=1, help="How many entries to show.")] = 10,
    far: Annotated[
        float | None,
        typer.Option("--far", help="False match rate of one pair to keep, such as 1e-3, for what counts as the same."),
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option("--label", help="Search entries of this label only; may be repeated.")
    ] = None,
    prior: Annotated[
        float, typer.Option("--prior", help="Share of such pairs that are the same, for the probabilities.")
    ] = 0.5,
    approximate: Annotated[
        bool, typer.Option("--approximate", help="Use the index of `samekind gallery build-index`; may miss entries.")
    ] = False,
    landmarks: LandmarksOption = None,
    several: SeveralOption = "error",
    json: JsonOption = False,
) -> None:
    """Find the entries of a gallery that are nearest to a picture, exactly.

    Prints squared distances, probabilities of "same", and which entries are within the threshold. It says what the
    threshold means for a gallery of this size: the chance that a person who is not in it gets any false match. That
    chance grows with the number of entries, so that a threshold for pairs is often too high for a gallery.

    The exit status is 0 when an entry is within the threshold, or the model has none, 1 when there is no such entry,
    and 2 when there is no answer.

    Example: samekind search album.gallery unknown.jpg -k 5 --far 1e-4
    """
    from samekind.gallery import Gallery

    with Gallery.open(gallery, read_only=True) as opened:
        metric = opened.model
        if metric is None:
            raise ValueError(
                f"{opened.location} has plain codes of no model, so that pictures cannot be encoded for it."
            )
        limit = _threshold(metric, far)
        points = landmarks_for(landmarks, {str(image): image})
        encoded = encoder_of(metric, landmarks=points, several=several).encode_each([(image, str(image))])
        answer = opened.search(encoded.codes, k, label=label, approximate=approximate)
        problems = opened.problems()
    result = _result(image, answer, metric, limit, prior) | {"notes": encoded.notes, "problems": problems}
    if json:
        say_json(result)
    else:
        _say_result(result)
    if limit is not None and not any(hit["same"] for hit in result["hits"]):
        raise typer.Exit(NONE)


def _threshold(metric: "Metric", far: float | None) -> float | None:
    if far is None:
        return metric.threshold
    if metric.calibration is None:
        raise ValueError("The gallery's model is not calibrated, so it knows no false match rates: leave out --far.")
    return float(metric.calibration.threshold_at(far))


def _result(image: Path, answer: "Answer", metric: "Metric", limit: float | None, prior: float) -> dict[str, Any]:
    from samekind.gallery.chances import false_match_chance

    calibration = metric.calibration
    distances = [hit.distance for hit in answer.hits]
    probabilities = (
        [None] * len(distances) if calibration is None else calibration.probability(distances, prior).tolist()
    )
    chance = None if limit is None else false_match_chance(calibration, limit, answer.n_searched)
    return {
        "image": str(image),
        "hits": [
            {
                **hit.record.to_json(),
                "distance": hit.distance,
                "probability": probability,
                "same": None if limit is None else hit.distance <= limit,
            }
            for hit, probability in zip(answer.hits, probabilities, strict=True)
        ],
        "threshold": limit,
        "prior": prior,
        "false_match": None if chance is None else asdict(chance),
        "false_match_in_words": "" if chance is None else chance.describe(),
        "advice": _advice(metric, answer.n_searched),
        "searched": answer.n_searched,
        "computed": answer.n_computed,
        "excluded": answer.n_excluded,
        "exact": answer.exact,
    }


def _advice(metric: "Metric", n_entries: int) -> str:
    """Which rate a gallery of this size would need, and whether the calibration supports it."""
    from samekind.gallery.chances import rate_for_chance

    calibration = metric.calibration
    if calibration is None or calibration.smallest_rate is None:
        return "The model's calibration supports no false match rate, so that nothing can be said of false matches."
    rate = rate_for_chance(WANTED_CHANCE, n_entries)
    wanted = f"For a chance of {WANTED_CHANCE:.0%} of any false match, {n_entries:,} entries need --far {rate:.2g}"
    if rate < calibration.smallest_rate:
        return f"{wanted}, but the calibration supports rates from {calibration.smallest_rate:.2g} only."
    return f"{wanted}: a threshold of {calibration.threshold_at(rate):.6g}."


def _say_result(result: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    from samekind.cli.output import Console, on_one_line

    table = Table()
    for column in ("", "id", "label", "name", "distance", "probability"):
        table.add_column(column, justify="right" if column in ("id", "distance", "probability") else "left")
    for hit in result["hits"]:
        probability = "" if hit["probability"] is None else f"{hit['probability']:.1%}"
        texts = (hit["id"], hit["label"] or "", hit["name"] or "", f"{hit['distance']:.6g}", probability)
        table.add_row("same" if hit["same"] else "", *(Text(on_one_line(text)) for text in texts))
    Console().print(table)
    facts: list[tuple[str, object]] = [
        (
            "Searched",
            f"{result['searched']:,} entries; {result['excluded']:,} were excluded by their bound alone"
            if result["exact"]
            else f"{result['searched']:,} entries by an index, which may miss some of the nearest",
        )
    ]
    if result["threshold"] is not None:
        meaning = result["false_match_in_words"]
        facts.append(("Threshold", f"{result['threshold']:.6g}" + (f": {meaning}" if meaning else "")))
    facts.append(("Probabilities", f"if {result['prior']:.0%} of such pairs are the same"))
    say_facts(facts)
    say_list("Remarks", [result["advice"], *remarks(result["notes"]), *result["problems"]])
