"""`samekind extract`"""

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from samekind.cli.described import describe_store, reasons, say_store_lists, store_facts
from samekind.cli.frontend import FrontEnd, FrontEndOptions
from samekind.cli.options import ClusterOptions, LabelledImagesArgument, OnErrorOption, RunOptions, SeveralOption
from samekind.cli.output import (
    MOST_SHOWN,
    counting,
    duration,
    none_can,
    plural,
    say,
    say_error,
    say_facts,
    say_json,
    say_list,
)
from samekind.cli.progress import interruptible

if TYPE_CHECKING:
    from samekind.store import DiskStore

UNUSABLE = 1  # exit status


def extract(
    images: LabelledImagesArgument,
    store: Annotated[
        Path, typer.Argument(metavar="STORE", help="Folder for the descriptors: new, or a store to go on with.")
    ],
    making: FrontEndOptions,
    *,
    several: SeveralOption = "error",
    on_error: OnErrorOption = "skip",
    retry: Annotated[bool, typer.Option("--retry", help="Try files again that an earlier run skipped.")] = False,
    computing: ClusterOptions,
    running: RunOptions,
) -> None:
    """Compute the descriptors of labelled pictures into a store, for `samekind fit`.

    Pictures (JPEG, PNG, PBM, PGM, PPM) stand in a folder per label, such as faces/Ann/1.jpg and faces/Bob/1.jpg, or in
    a CSV with the columns file and label. Each is brought to one crop, and described region by region. Files that
    cannot be used are reported, each with its reason.

    The same command run again goes on where it was interrupted, and adds pictures that are new; what the store was made
    with need not be repeated. Files that were skipped are tried again with --retry.

    Example: samekind extract faces/ faces.store

    Example: samekind extract faces/ faces.store --families cov,slbp,cov@0.5:75x100,slbp+r2@0.5:75x100

    Example: samekind extract people.csv people.store --align detect --several largest --regions 2000
    """
    from samekind.extraction import extract as extract_into
    from samekind.images.landmarks import read_landmarks
    from samekind.images.listing import list_images
    from samekind.images.load import ImageError
    from samekind.store import DiskStore

    started = time.perf_counter()
    front_end = FrontEnd.from_options(making)
    files = list_images(images, labelled=True)
    points = None if making.landmarks is None else read_landmarks(making.landmarks)
    remains = _Remains(store)
    if remains.new:
        front_end, said = front_end.fitted_to(files)
        extractor = front_end.extractor()
        if said:
            say(said, stderr=True)
    else:
        extractor = front_end.extractor_of(DiskStore.open(store))
    run = {"tried": 0}
    again = "Files already written are whole; the same command, run again, goes on where it stopped."
    with (
        interruptible(again),
        counting("Describing pictures", shown=not running.quiet) as count,
        computing.around(running.jobs),
    ):

        def progress(done: int, total: int) -> None:
            run["tried"] = done
            count(done, total)

        try:
            made = extract_into(
                files,
                store,
                extractor,
                landmarks=points,
                several=several,
                on_error=on_error,
                retry=retry,
                n_jobs=running.jobs,
                progress=progress,
            )
        except (ImageError, OSError):
            remains.remove_if_empty()
            raise
    result = describe_store(made) | run | {"seconds": round(time.perf_counter() - started, 3)}
    if running.json:
        say_json(result)
    elif result["images"]:
        _say_result(result)
    if not result["images"]:
        _say_unusable(made, remains.remove_if_empty())
        raise typer.Exit(UNUSABLE)


def _say_result(result: dict[str, Any]) -> None:
    facts = store_facts(result)
    if result["tried"]:
        facts.append(("Time", f"{duration(result['seconds'])} for {plural(result['tried'], 'picture')}"))
    else:
        say("Nothing to do: the store already covers all of these pictures.")
    say_facts(facts)
    say_store_lists(result, MOST_SHOWN)


def _say_unusable(store: "DiskStore", removed: bool) -> None:
    skipped = store.skipped
    problem = f"{none_can(len(skipped), 'file')} be used, "
    say_error(problem + ("so no store was written." if removed else f"so the store {store.path} has no images."))
    say_list("Skipped", reasons(skipped), MOST_SHOWN, "--json shows all", stderr=True)


class _Remains:
    """What a run leaves of a store that was not there before it.

    A store without a single image would only bind the next run to the options of this one.
    """

    def __init__(self, folder: Path) -> None:
        from samekind.store.manifest import MANIFEST

        self.folder = folder
        self.new = not (folder / MANIFEST).exists()
        self.new_folder = not folder.exists()

    def remove_if_empty(self) -> bool:
        """Only after a run that has had the store to itself."""
        from samekind.store import DiskStore
        from samekind.store.manifest import MANIFEST, shard_file
        from samekind.store.writer import LOCK

        if not self.new or not (self.folder / MANIFEST).exists():
            return False
        store = DiskStore.open(self.folder)
        if len(store):
            return False
        (self.folder / MANIFEST).unlink()
        for number in range(len(store.manifest.shards)):
            for name in (shard_file(number), *(family.file(number) for family in store.manifest.families)):
                (self.folder / name).unlink(missing_ok=True)
        (self.folder / LOCK).unlink(missing_ok=True)
        if self.new_folder:
            with contextlib.suppress(OSError):
                self.folder.rmdir()
        return True
