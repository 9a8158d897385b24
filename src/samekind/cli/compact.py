"""`samekind compact`"""

import time
from pathlib import Path
from typing import Annotated

import typer

from samekind.cli.options import JsonOption, QuietOption
from samekind.cli.output import amount, counting, duration, say_facts, say_json
from samekind.cli.progress import interruptible


def compact(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="Folder that `samekind extract` wrote.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder for the same store with larger shards.")],
    *,
    shard_bytes: Annotated[
        str, typer.Option("--shard-bytes", help="Size up to which shards are joined, such as 500MB; 1GB at most.")
    ] = "1GB",
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Join the shards of a store into larger ones, in a new folder: for stores of very many files.

    Images, labels, regions and numbers are the same, and so is every model that is fitted; the files have new
    checksums. Each file is compared with its checksum before. STORE stays as it is: delete it when OUT is there. It
    takes the memory of one shard.

    The same command, run again, goes on where it was interrupted.

    Example: samekind compact faces.store faces.joined

    Example: samekind compact faces.store faces.joined --shard-bytes 500MB
    """
    from samekind.compute.memory import parse_bytes
    from samekind.store import DiskStore
    from samekind.store.compaction import compact as compact_store

    started = time.perf_counter()
    size = parse_bytes(shard_bytes, "--shard-bytes")
    opened = DiskStore.open(store)
    again = "Files already written are whole; the same command, run again, goes on where it stopped."
    with interruptible(again), counting("Joining shards", shown=not quiet) as count:
        made = compact_store(opened, out, size, count)
    before, after, seconds = len(opened.records), len(made.records), time.perf_counter() - started
    if json:
        say_json(
            {
                "kind": "store",
                "path": str(out),
                "images": len(made),
                "shards_before": before,
                "shards": after,
                "bytes": made.nbytes,
                "seconds": round(seconds, 3),
            }
        )
        return
    say_facts(
        [
            ("Store", out),
            ("Images", f"{len(made):,}"),
            ("Shards", f"{after:,} instead of {before:,}"),
            ("Size", amount(made.nbytes)),
            ("Time", duration(seconds)),
        ]
    )
