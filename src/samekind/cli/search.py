"""`samekind search`"""

from pathlib import Path
from typing import Annotated, Any

import typer

from samekind.cli.described import remarks
from samekind.cli.options import GalleryArgument, JsonOption, LandmarksOption, SeveralOption
from samekind.cli.output import say_facts, say_json, say_list
from samekind.cli.pictures import encoder_of, landmarks_for

NONE = 1  # exit status: no entry is within the threshold


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
    chance grows with the number of people, so that a threshold for pairs is often too high for a gallery.

    The exit status is 0 when an entry is within the threshold, or the model has none, 1 when there is no such entry,
    and 2 when there is no answer.

    Example: samekind search album.gallery unknown.jpg -k 5 --far 1e-4
    """
    from samekind.gallery import Gallery
    from samekind.service.answers import search_answer, threshold_of

    with Gallery.open(gallery, read_only=True) as opened:
        metric = opened.model
        if metric is None:
            raise ValueError(f"{opened.location} has plain codes of no model: pictures cannot be encoded for it.")
        limit = threshold_of(metric, far)
        points = landmarks_for(landmarks, {str(image): image})
        encoded = encoder_of(metric, landmarks=points, several=several).encode_each([(image, str(image))])
        answer = opened.search(encoded.codes, k, label=label, approximate=approximate)
        size, problems = opened.size(label), opened.problems()
    found = search_answer(answer, size, metric, limit, prior)
    if approximate and answer.exact:
        why = (
            "There is no index of all entries (`samekind gallery build-index`)"
            if label is None
            else "Labels were given"
        )
        problems = [*problems, f"{why}, so that the search was exact."]
    result = {"image": str(image), **found, "exact": answer.exact, "notes": encoded.notes, "problems": problems}
    if json:
        say_json(result)
    else:
        _say_result(result)
    if limit is not None and not any(hit["same"] for hit in result["hits"]):
        raise typer.Exit(NONE)


def _say_result(result: dict[str, Any]) -> None:
    from samekind.cli.output import on_one_line, plural, say_rows

    rows = []
    for hit in result["hits"]:
        probability = "" if hit["probability"] is None else f"{hit['probability']:.1%}"
        texts = (hit["id"], hit["label"] or "", hit["name"] or "", f"{hit['distance']:.6g}", probability)
        rows.append(["same" if hit["same"] else "", *map(on_one_line, texts)])
    if rows:
        say_rows(["", "id", "label", "name", "distance", "probability"], rows, left=("label", "name"))
    searched = f"{plural(result['searched'], 'entry', 'entries')} of {plural(result['people'], 'person', 'people')}"
    facts: list[tuple[str, object]] = [
        (
            "Searched",
            f"{searched}; {result['excluded']:,} were excluded by their bound alone"
            if result["exact"]
            else f"{searched} by an index, which may miss some of the nearest",
        )
    ]
    if result["threshold"] is not None:
        meaning = result["false_match_in_words"]
        facts.append(("Threshold", f"{result['threshold']:.6g}" + (f": {meaning}" if meaning else "")))
    facts.append(("Probabilities", f"if {result['prior']:.0%} of such pairs are the same"))
    say_facts(facts)
    say_list("Remarks", [result["advice"], *remarks(result["notes"]), *result["problems"]])
