"""What there is to say about a store, and about a model: once as JSON, once for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from samekind.cli.output import amount, plural, say_list

if TYPE_CHECKING:
    from samekind.model.metric import Metric
    from samekind.store import DiskStore


def describe_store(store: DiskStore) -> dict[str, Any]:
    labels = dict(store.manifest.images)
    counts = Counter(store.labels.tolist())
    skipped = store.skipped
    return {
        "kind": "store",
        "path": str(store.path),
        "images": len(store),
        "labels": len(counts),
        "images_per_label": [min(counts.values(), default=0), max(counts.values(), default=0)],
        "planned": store.planned,
        "missing": store.planned - len(store) - len(skipped),
        "complete": store.complete,
        "families": [
            {"name": family.name, "groups": len(family.groups), "size": family.size}
            for family in store.manifest.families
        ],
        **describe_front_end(store.front_end),
        "skipped": skipped,
        "notes": store.notes,
        "duplicates": [
            {"images": list(same), "labels": sorted({labels[image] for image in same})} for same in store.duplicates()
        ],
        "bytes": sum(file.stat().st_size for file in store.path.iterdir() if file.is_file()),
        "samekind": store.manifest.version,
    }


def describe_front_end(front_end: Mapping[str, Any]) -> dict[str, Any]:
    """Crop, alignment and parameters of an extractor; nothing for what was not made of pictures."""
    if "families" not in front_end:
        return {"crop": None, "alignment": None, "parameters": {}}
    return {
        "crop": front_end["crop"],
        "alignment": front_end["alignment"],
        "parameters": {family["name"]: family["parameters"] for family in front_end["families"]},
    }


def store_facts(store: Mapping[str, Any]) -> list[tuple[str, object]]:
    few, many = store["images_per_label"]
    each = f"{few:,} to {many:,}" if few < many else f"{many:,}"
    facts: list[tuple[str, object]] = [
        ("Store", store["path"]),
        ("Images", f"{store['images']:,} of {plural(store['labels'], 'label')}, {each} each"),
    ]
    if not store["complete"]:
        problem = f"no: {store['missing']:,} of {store['planned']:,} are missing; run the same `samekind extract` again"
        facts.append(("Complete", problem))
    return [*facts, *front_end_facts(store), ("Size on disk", amount(store["bytes"]))]


MIRRORS = {
    "none": "do not count",
    "mean": "count by the mean of both descriptors",
    "distances": "count by the mean of four distances",
}


def describe_usage(metric: Metric) -> dict[str, Any]:
    """How codes of a model are made and compared."""
    return {
        "n_components": metric.n_components,
        "similarity": None if metric.similarity is None else metric.similarity.n_codes,
        "normalise": metric.normalise,
        "normalise_groups": metric.basis.normalise,
        "mirror": metric.mirror,
        "threshold": metric.threshold,
    }


def usage_facts(model: Mapping[str, Any]) -> list[tuple[str, object]]:
    """What `describe_usage` says, in words; the threshold aside."""
    groups = [("Groups normalised", model["normalise_groups"])] if model["normalise_groups"] != "none" else []
    facts = [("Code length", model["n_components"]), ("Compared by", _comparison(model))]
    normalisation = [] if model["similarity"] == model["n_components"] else [("Normalisation", model["normalise"])]
    return [*facts, *normalisation, *groups, ("Mirror images", MIRRORS[model["mirror"]])]


def _comparison(model: Mapping[str, Any]) -> str:
    if model["similarity"] is None:
        return "squared distance"
    similarity = f"similarity of {model['similarity']} numbers (two-covariance model; may be negative)"
    own = model["n_components"] - model["similarity"]
    return f"squared distance of {plural(own, 'number')}, and {similarity}" if own else similarity


def distance_in_words(similarity: int | None) -> str:
    """What two codes are apart by."""
    return "squared distance" if similarity is None else "distance; with a similarity term it may be negative"


def front_end_facts(made: Mapping[str, Any]) -> list[tuple[str, object]]:
    """Families, crop and alignment of a store or a model."""
    facts: list[tuple[str, object]] = []
    for family in made["families"]:
        own = made["parameters"].get(family["name"], {})
        parameters = ", ".join(f"{name} {value:g}" for name, value in own.items())
        size = f"{plural(family['groups'], 'region')} x {family['size']} numbers"
        facts.append((f"Family {family['name']}", size + (f" ({parameters})" if parameters else "")))
    crop = made["crop"]
    if crop:
        facts.append(("Crop", f"{crop['width']} x {crop['height']} pixels, smoothed by {crop['sigma']:g}"))
    if made["alignment"]:
        facts.append(("Alignment", made["alignment"]))
    return facts


def say_store_lists(store: Mapping[str, Any], most: int | None = None) -> None:
    """What was skipped, damaged, or there twice."""
    where_all = f"see `samekind info {store['path']}`"
    say_list("Skipped", reasons(store["skipped"]), most, where_all)
    say_list("Remarks", remarks(store["notes"]), most, where_all)
    say_list("Same picture under several names", [_same(entry) for entry in store["duplicates"]], most, where_all)


def reasons(skipped: Mapping[str, str]) -> list[str]:
    return [f"{image}: {reason}" for image, reason in skipped.items()]


def remarks(notes: Mapping[str, Sequence[str]]) -> list[str]:
    return [f"{image}: {note}" for image, several in notes.items() for note in several]


def _same(entry: Mapping[str, Any]) -> str:
    warning = "" if len(entry["labels"]) == 1 else "  (and different labels: one of them is wrong)"
    return " = ".join(entry["images"]) + warning
