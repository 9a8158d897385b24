"""Coverage-guided runs, where atheris installs (`pip install ".[fuzz]"`).

    python -m tests.fuzz.guided pictures -max_total_time=600

Inputs are whole files: pictures as they are, models with a checksum that is made right. libFuzzer's options follow the
kind. It stops at the first input that is neither used nor refused, and keeps it as crash-*.
"""

import contextlib
import hashlib
import json
import random
import sys
import tempfile
from pathlib import Path

import atheris

# What numba compiles must stay as it is.
READERS = [f"samekind.images.{name}" for name in ("load", "netpbm", "deep_png", "description", "levels", "align")]
with atheris.instrument_imports(include=["samekind.schema", "samekind.model", *READERS, "PIL.PngImagePlugin"]):
    from tests.fuzz.models import Models
    from tests.fuzz.pictures import Pictures
    from tests.fuzz.room import REFUSALS, warm_up
    from tests.model.files import sealed

KINDS = {"models": Models, "pictures": Pictures}


def main():
    kind, *options = sys.argv[1:]
    folder = Path(tempfile.mkdtemp(prefix="samekind-guided-"))
    room, corpus = KINDS[kind](folder), folder / "corpus"
    warm_up(room)
    corpus.mkdir()
    for at, whole in enumerate(room.wholes if kind == "pictures" else [sealed(*parts) for parts in room.parts]):
        (corpus / str(at)).write_bytes(whole)

    def one_input(data):
        room.path.write_bytes(data if kind == "pictures" else with_right_checksum(data))
        with contextlib.suppress(*REFUSALS):
            room.use(random.Random(0))

    atheris.Setup([sys.argv[0], *options, "-timeout=10", "-rss_limit_mb=2000", str(corpus)], one_input)
    atheris.Fuzz()


def with_right_checksum(data):
    """The same model file, if it is one, as its writer would have sealed it."""
    try:
        start = 8 + int.from_bytes(data[:8], "little")
        first, last = json.loads(data[8:start])["sha256"]["data_offsets"]
        if last - first != 32 or start + last > len(data):
            return data
        before, behind = data[: start + first], data[start + last :]
    except (ValueError, KeyError, TypeError, RecursionError):
        return data
    return before + hashlib.sha256(before + behind).digest() + behind


if __name__ == "__main__":
    main()
