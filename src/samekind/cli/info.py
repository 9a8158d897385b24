"""`samekind info`"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from samekind.cli.described import (
    describe_front_end,
    describe_store,
    describe_usage,
    distance_in_words,
    front_end_facts,
    say_store_lists,
    store_facts,
    usage_facts,
)
from samekind.cli.options import JsonOption
from samekind.cli.output import MOST_SHOWN, amount, say_facts, say_json, say_list, waiting

if TYPE_CHECKING:
    from samekind.images.extractor import Part


def info(
    path: Annotated[Path, typer.Argument(metavar="STORE|MODEL", help="What `samekind extract` or `fit` wrote.")],
    check: Annotated[bool, typer.Option("--check", help="Read every byte, and compare it with the checksums.")] = False,
    json: JsonOption = False,
) -> None:
    """Tell what a store or a model is.

    Of a store: images, labels, families of descriptors, crop and alignment, whether it is complete, and every file that
    was skipped, damaged, or there under several names. Of a model: code length, how pictures are compared, threshold
    and calibration, chosen regions, and how it was learned.

    Example: samekind info faces.store --check

    Example: samekind info faces.safetensors --json
    """
    result = _store(path, check) if path.is_dir() else _model(path)
    if json:
        say_json(result)
    elif result["kind"] == "store":
        say_facts([*store_facts(result), *_version_facts(result)])
        say_store_lists(result)
    else:
        _say_model(result)


def _store(path: Path, check: bool) -> dict[str, Any]:
    from samekind.gallery.database import FILE
    from samekind.store import DiskStore

    if (path / FILE).is_file():
        raise ValueError(f"{path} is a gallery: `samekind gallery info {path}` tells what is in it.")
    store = DiskStore.open(path)
    if check:
        with waiting("Comparing checksums", shown=True):
            store.verify()
    return describe_store(store) | {"checked": check}


def _model(path: Path) -> dict[str, Any]:
    """A model is always read whole, and so is always checked."""
    from samekind.model.metric import Metric

    if not path.exists():
        raise ValueError(f"There is no {path}. Give a store (a folder) or a model (a file).")
    metric = Metric.load(path)
    extractor = None if metric.extractor is None else metric.picture_extractor()
    return {
        "kind": "model",
        "path": str(path),
        **describe_usage(metric),
        "n_columns": metric.n_columns,
        "n_features": metric.n_features,
        "weigh": metric.basis.weigh,
        "calibration": None if metric.calibration is None else metric.calibration.to_json(),
        "calibration_in_words": [] if metric.calibration is None else metric.calibration.describe(),
        "groups": list(metric.groups),
        "families": [] if extractor is None else [_family(part) for part in extractor.parts],
        **describe_front_end(metric.extractor or {}),
        "attributes": dict(metric.attributes),
        "bytes": path.stat().st_size,
        "samekind": metric.attributes.get("samekind"),
        "checked": True,
    }


def _family(part: "Part") -> dict[str, Any]:
    return {"name": part.name, "groups": len(part.regions), "size": part.family.size}


def _say_model(result: dict[str, Any]) -> None:
    kind = distance_in_words(result["similarity"])
    threshold = "none" if result["threshold"] is None else f"{result['threshold']:.6g} ({kind})"
    reads = f"{result['n_columns']:,} of {result['n_features']:,} features"
    noted = ((name.capitalize(), value) for name, value in result["attributes"].items() if name != "samekind")
    say_facts(
        [
            ("Model", result["path"]),
            *usage_facts(result),
            ("Threshold", threshold),
            ("Reads", reads if result["families"] else f"{reads}; it cannot read pictures"),
            *front_end_facts(result),
            *noted,
            ("Size on disk", amount(result["bytes"])),
            *_version_facts(result),
        ]
    )
    say_list("Calibration", result["calibration_in_words"])
    say_list("Regions, in order of choice", result["groups"], MOST_SHOWN, "--json shows all")


def _version_facts(result: dict[str, Any]) -> list[tuple[str, object]]:
    made_by = ("Made by", f"samekind {result['samekind']}")
    return [made_by, ("Checksums", "right")] if result["checked"] else [made_by]
