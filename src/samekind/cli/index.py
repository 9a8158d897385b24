"""`samekind index`"""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from samekind.cli.encode import labelled_by_folder, landmarks_of
from samekind.cli.options import ModelArgument, OnError, PictureOptions, RunOptions
from samekind.cli.output import Count, counting, duration, none_can, plural, say_error, say_facts, say_json
from samekind.cli.pictures import encoder_of, say_skipped
from samekind.cli.progress import interruptible

if TYPE_CHECKING:
    from samekind.gallery import Gallery
    from samekind.images.listing import ImageFile
    from samekind.model.encoder import Encoder
    from samekind.model.metric import Metric

AT_ONCE = 256  # pictures that are encoded, then added durably
UNUSABLE = 1  # exit status
THUMBNAIL = 96  # pixels a side at the most


def index(
    model: ModelArgument,
    images: Annotated[
        Path, typer.Argument(metavar="IMAGES", help="A picture, a folder of pictures or of folders, or a CSV of file.")
    ],
    gallery: Annotated[
        str,
        typer.Argument(metavar="GALLERY", help="Folder of the gallery, or postgresql://..., new or to be added to."),
    ],
    reading: PictureOptions,
    running: RunOptions,
    thumbnails: Annotated[
        bool, typer.Option("--thumbnails", help="Keep a small grey copy of each picture, for `samekind serve` to show.")
    ] = False,
) -> None:
    """Add pictures to a gallery, which `samekind search` finds them in.

    In a folder of folders, labels are the folders' names. Each picture gets an id that is never used again; its name
    and path are kept with it. The model is copied into the gallery, which refuses codes of any other.

    Pictures whose names are in the gallery already are left out, so that an index that was interrupted goes on where
    it stopped, and new pictures are added. Several runs may add to a gallery at once: each picture is added once.

    Example: samekind index faces.safetensors album/ album.gallery
    """
    started = time.perf_counter()

    from samekind.images.listing import list_images
    from samekind.model.metric import Metric

    metric = Metric.load(model)
    files = labelled_by_folder(images, list_images(images, labelled=False))
    encoder = encoder_of(metric, landmarks=landmarks_of(reading.landmarks, images, files), several=reading.several)
    with _opened(gallery, metric) as opened:
        known = opened.names()
        new = [file for file in files if as_text(file.name) not in known]
        again = "What was added is in the gallery; the same command, run again, goes on where it stopped."
        with interruptible(again), counting("Adding pictures", shown=not running.quiet) as count:
            skipped, notes, by_others = _add_all(
                opened, metric, encoder, new, reading.on_error, running.jobs, count, thumbnails
            )
        total, location = len(opened), opened.location
    result = {
        "gallery": location,
        "added": len(new) - len(skipped) - by_others,
        "known": len(files) - len(new),
        "added_by_others": by_others,
        "records": total,
        "skipped": skipped,
        "notes": notes,
        "seconds": round(time.perf_counter() - started, 3),
    }
    if running.json:
        say_json(result)
    else:
        _say_result(result)
    if new and len(skipped) == len(new):
        say_error(f"{none_can(len(new), 'new file')} be used, so nothing was added.")
        raise typer.Exit(UNUSABLE)


def _opened(path: str, metric: "Metric") -> "Gallery":
    """The gallery that is there, if it is of this model, or a new one."""
    from samekind.gallery import Gallery, GalleryError

    if not Gallery.exists(path):
        try:
            return Gallery.create(path, metric)
        except (OSError, GalleryError):
            if not Gallery.exists(path):
                raise  # else another process has just made it
    opened = Gallery.open(path)
    try:
        opened.check_model(metric)
    except ValueError:
        opened.close()
        raise
    return opened


def _add_all(
    gallery: "Gallery",
    metric: "Metric",
    encoder: "Encoder",
    files: "list[ImageFile]",
    on_error: OnError,
    jobs: int | None,
    count: Count,
    thumbnails: bool,
) -> tuple[dict[str, str], dict[str, tuple[str, ...]], int]:
    """Files that cannot be used, remarks, and how many files another run on this gallery was faster to add."""
    skipped: dict[str, str] = {}
    notes: dict[str, tuple[str, ...]] = {}
    by_others = 0
    for start in range(0, len(files), AT_ONCE):
        listed = files[start : start + AT_ONCE]
        known = gallery.names([as_text(file.name) for file in listed])
        part = [file for file in listed if as_text(file.name) not in known]
        by_others += len(listed) - len(part)
        encoded = encoder.encode_each(
            [(file.path, file.name) for file in part],
            jobs,
            on_error=on_error,
            progress=lambda done, _, start=start: count(start + done, len(files)),  # type: ignore[misc]
        )
        kept = [file for file in part if file.name not in encoded.skipped]
        if kept:
            ids = gallery.add(
                encoded.codes,
                label=[None if file.label is None else as_text(file.label) for file in kept],
                name=[as_text(file.name) for file in kept],
                source=[as_text(str(file.path.absolute())) for file in kept],
                thumbnails=[_thumbnail(file.path) for file in kept] if thumbnails else None,
                model=metric,
                once=True,
            )
            by_others += int((ids == 0).sum())
        skipped |= encoded.skipped
        notes |= encoded.notes
    return skipped, notes, by_others


def _thumbnail(path: Path) -> bytes:
    from samekind.images.load import load_image
    from samekind.images.save import png_bytes

    return png_bytes(load_image(path).grey, most=THUMBNAIL)


def as_text(name: str) -> str:
    """A file's name may hold bytes that are no text; they are written as numbers."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _say_result(result: dict[str, Any]) -> None:
    by_others = result["added_by_others"]
    say_facts(
        [
            ("Gallery", f"{result['gallery']}: {plural(result['records'], 'record')}"),
            ("Added", plural(result["added"], "picture")),
            *([("Known before", plural(result["known"], "picture"))] if result["known"] else []),
            *([("Added by another run", plural(by_others, "picture"))] if by_others else []),
            ("Time", duration(result["seconds"])),
        ]
    )
    say_skipped(result)
