"""`samekind info`"""

from pathlib import Path
from typing import Annotated, Any

import typer

from samekind.cli.described import (
    describe_front_end,
    describe_store,
    front_end_facts,
    say_store_lists,
    store_facts,
    usage_facts,
)
from samekind.cli.options import JsonOption
from samekind.cli.output import MOST_SHOWN, amount, say_facts, say_json, say_list, waiting


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
    from samekind.store import DiskStore

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
    made = metric.extractor or {}
    return {
        "kind": "model",
        "path": str(path),
        "n_components": metric.n_components,
        "n_columns": metric.n_columns,
        "n_features": metric.n_features,
        "normalise": metric.normalise,
        "normalise_groups": metric.basis.normalise,
        "weigh": metric.basis.weigh,
        "mirror": metric.mirror,
        "threshold": metric.threshold,
        "calibration": None if metric.calibration is None else metric.calibration.to_json(),
        "calibration_in_words": [] if metric.calibration is None else metric.calibration.describe(),
        "groups": list(metric.groups),
        "families": [_family(family) for family in made.get("families", ())],
        **describe_front_end(made),
        "attributes": dict(metric.attributes),
        "bytes": path.stat().st_size,
        "samekind": metric.attributes.get("samekind"),
        "checked": True,
    }


def _family(family: dict[str, Any]) -> dict[str, Any]:
    from samekind.images.extractor import FAMILIES
    from samekind.images.levels import FamilyName

    kind = FAMILIES.get(FamilyName.parse(family["name"]).kind)
    return {"name": family["name"], "groups": len(family["regions"]), "size": getattr(kind, "size", None)}


def _say_model(result: dict[str, Any]) -> None:
    threshold = "none" if result["threshold"] is None else f"{result['threshold']:.6g} (squared distance)"
    reads = f"{result['n_columns']:,} of {result['n_features']:,} features"
    noted = ((name.capitalize(), value) for name, value in result["attributes"].items() if name != "samekind")
    say_facts(
        [
            ("Model", result["path"]),
            ("Code length", result["n_components"]),
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
