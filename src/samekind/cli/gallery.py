"""`samekind gallery`: what is done to a gallery, apart from adding and searching."""

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from samekind.cli.doctor import doctor
from samekind.cli.options import GalleryArgument, JsonOption, QuietOption
from samekind.cli.output import MOST_SHOWN, amount, counting, duration, plural, say_facts, say_json, say_list

if TYPE_CHECKING:
    from samekind.gallery import Gallery

UNSOUND = 1  # exit status of `check`


def info(gallery: GalleryArgument, json: JsonOption = False) -> None:
    """Tell what is in a gallery.

    Example: samekind gallery info album.gallery
    """
    with _open(gallery, read_only=True) as opened:
        labels = opened.labels()
        model = opened.model
        result: dict[str, Any] = {
            "gallery": opened.location,
            "records": len(opened),
            "labels": len([label for label in labels if label is not None]),
            "unlabelled": labels.get(None, 0),
            "length": opened.length,
            "mirror": None if model is None else model.mirror,
            "fingerprint": opened.fingerprint,
            "erased_rows": opened.n_erased_rows(),
            "being_reencoded": opened.next_model is not None,
            "bytes": opened.n_bytes(),
            "problems": opened.problems(),
        }
    if json:
        say_json(result)
        return
    unlabelled = f", {result['unlabelled']:,} without a label" if result["unlabelled"] else ""
    erased = f"; {result['erased_rows']:,} erased rows, which `samekind gallery compact` gives up"
    say_facts(
        [
            ("Gallery", result["gallery"]),
            ("Records", f"{result['records']:,} of {plural(result['labels'], 'label')}{unlabelled}"),
            ("Codes", f"{result['length']} numbers{erased if result['erased_rows'] else ''}"),
            ("Model", result["fingerprint"][:12] + (" (being moved to another)" * result["being_reencoded"])),
            ("Size on disk", amount(result["bytes"])),
        ]
    )
    say_list("Problems", result["problems"])


def remove(
    gallery: GalleryArgument,
    ids: Annotated[list[int] | None, typer.Argument(metavar="[ID]...", help="Ids of records.")] = None,
    label: Annotated[str | None, typer.Option("--label", help="All records of this label.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="All records of this name.")] = None,
    json: JsonOption = False,
) -> None:
    """Erase records: their texts, thumbnails and codes are overwritten in all files, not only marked.

    On a server rows are deleted, and `samekind gallery compact` writes its tables anew without them. Copies that were
    made elsewhere (exports, backups, the pictures themselves) are not touched.

    Example: samekind gallery remove album.gallery 17 18

    Example: samekind gallery remove album.gallery --label "Anna"
    """
    if not ids and label is None and name is None:
        raise ValueError("Say which records: give ids, --label or --name.")
    with _open(gallery) as opened:
        found = [] if label is None and name is None else [r.id for r in opened.find(label=label, name=name)]
        if not found and not ids:
            raise ValueError(f"{opened.location} has no such record, so nothing was removed.")
        removal = opened.remove([*(ids or ()), *found])
        left = len(opened)
    if json:
        say_json({"removed": list(removal.ids), "journal_emptied": removal.journal, "records": left})
        return
    for line in removal.describe():
        typer.echo(line)
    typer.echo(f"{plural(left, 'record')} {'is' if left == 1 else 'are'} left.")


def export(
    gallery: GalleryArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="OUT.csv and OUT.npy, or a file ending in .parquet.")],
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Write all records and codes for other programs: a CSV with a NumPy array beside it, or Parquet (needs pyarrow).

    Example: samekind gallery export album.gallery album
    """
    started = time.perf_counter()
    with _open(gallery, read_only=True) as opened, counting("Writing records", shown=not quiet) as count:
        n = opened.export(out, count)
    _say_moved("exported", n, out, started, json)


def import_(
    gallery: GalleryArgument,
    source: Annotated[Path, typer.Argument(metavar="FROM", help="What `samekind gallery export` wrote.")],
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Add what was exported from a gallery of the same model; records get new ids.

    Example: samekind gallery import album.gallery other.parquet
    """
    started = time.perf_counter()
    with _open(gallery) as opened, counting("Adding records", shown=not quiet) as count:
        n, location = len(opened.import_(source, count)), opened.location
    _say_moved("imported", n, location, started, json)


def compact(gallery: GalleryArgument, quiet: QuietOption = False, json: JsonOption = False) -> None:
    """Give up the space of erased rows; searches go on meanwhile.

    Example: samekind gallery compact album.gallery
    """
    started = time.perf_counter()
    with _open(gallery) as opened, counting("Writing codes", shown=not quiet) as count:
        n = opened.compact(count)
    if json:
        say_json({"given_up": n, "seconds": round(time.perf_counter() - started, 3)})
    else:
        say_facts([("Given up", plural(n, "row")), ("Time", duration(time.perf_counter() - started))])


def check(
    gallery: GalleryArgument,
    no_repair: Annotated[bool, typer.Option("--no-repair", help="Only report, and change nothing.")] = False,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Read every byte of a gallery and compare it with its checksums; what can be made again is.

    The exit status is 0 when all is right, 1 when something is wrong that could not be repaired.

    Example: samekind gallery check album.gallery
    """
    started = time.perf_counter()
    with _open(gallery, read_only=no_repair) as opened, counting("Comparing checksums", shown=not quiet) as count:
        report, location = opened.check(repair=not no_repair, progress=count), opened.location
    seconds = time.perf_counter() - started
    if json:
        say_json(
            {
                "sound": report.sound,
                "problems": list(report.problems),
                "repaired": list(report.repaired),
                "records": report.n_records,
                "seconds": round(seconds, 3),
            }
        )
    else:
        answer = "as it was written" if report.sound else "damaged"
        records = plural(report.n_records, "record")
        say_facts([("Gallery", f"{location}: {answer}"), ("Records", records), ("Time", duration(seconds))])
        say_list("Problems", list(report.problems), MOST_SHOWN, "--json shows all")
        say_list("Repaired", list(report.repaired), MOST_SHOWN, "--json shows all")
    if not report.sound:
        raise typer.Exit(UNSOUND)


def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="A gallery: a folder, or postgresql://...")],
    target: Annotated[str, typer.Argument(metavar="TO", help="A new gallery, or one of the same model.")],
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Copy the records and codes of a gallery to another; they get new ids, in the same order.

    A plain copy of the folder is right only while nobody writes to the gallery; this one always is.

    Example: samekind gallery copy album.gallery backup.gallery

    Example: samekind gallery copy album.gallery "postgresql://me@host/pictures?gallery=album"
    """
    from samekind.gallery.addresses import shown_address
    from samekind.gallery.transfer import copy as copy_records

    started = time.perf_counter()
    with _open(source, read_only=True) as first, counting("Copying records", shown=not quiet) as count:
        n = copy_records(first, target, count)
    _say_moved("copied", n, shown_address(target), started, json)


def build_index(
    gallery: GalleryArgument,
    recall: Annotated[
        float, typer.Option("--recall", help="Share of the nearest entries that a search is to find.")
    ] = 0.95,
    k: Annotated[int, typer.Option("-k", min=1, help="How many nearest entries count.")] = 10,
    drop: Annotated[bool, typer.Option("--drop", help="Delete the index instead.")] = False,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Make an index for `samekind search --approximate`, and measure its recall on the gallery itself.

    In a folder it takes faiss (pip install "samekind\\[faiss]"); on a server it is pgvector's HNSW. Exact search needs
    no index: build one for millions of entries. It may be deleted at any time.

    Example: samekind gallery build-index album.gallery --recall 0.98
    """
    with _open(gallery) as opened:
        if drop:
            opened.drop_index()
            say_json({"dropped": True}) if json else typer.echo("The index is deleted; searches are exact.")
            return
        with counting("Assigning entries to cells", shown=not quiet) as count:
            report = opened.build_index(recall=recall, k=k, progress=count)
        location = opened.location
    if json:
        say_json({"gallery": location, **asdict(report)})
        return
    effort = "cells are read for a query" if report.kind == "cells" else "candidates are kept (ef)"
    say_facts(
        [
            ("Gallery", location),
            ("Index", f"{report.kind}, {report.size:,}; {report.effort:,} {effort}"),
            ("Measured", report.measured.describe()),
            ("Time", duration(report.seconds)),
        ]
    )


def _open(path: str, *, read_only: bool = False) -> "Gallery":
    from samekind.gallery import Gallery

    return Gallery.open(path, read_only=read_only)


def _say_moved(done: str, n: int, target: Path | str, started: float, json: bool) -> None:
    seconds = time.perf_counter() - started
    if json:
        say_json({done: n, "to": str(target), "seconds": round(seconds, 3)})
    else:
        say_facts([(done.capitalize(), plural(n, "record")), ("To", target), ("Time", duration(seconds))])


VERBS: dict[str, Callable[..., None]] = {
    "info": info,
    "remove": remove,
    "export": export,
    "import": import_,
    "compact": compact,
    "check": check,
    "copy": copy,
    "doctor": doctor,
    "build-index": build_index,
}
