"""Checksums of blocks, compared when a file is first read whole."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from samekind.gallery.checksums import matches
from samekind.gallery.database import Database
from samekind.gallery.layout import CODES, INT8
from samekind.gallery.view import Segment, View
from samekind.threads import ThreadPool


class DamagedBlock(Exception):
    """A block is not as it was written."""

    def __init__(self, file: str, block: int) -> None:
        super().__init__(f"{file} is damaged in block {block}.")
        self.file, self.block = file, block


@dataclass(frozen=True, eq=False)
class Checksum:
    """What a block of a file is to have."""

    segment: Segment
    file: str
    block: int
    crc: bytes

    def matches(self, block_rows: int) -> bool:
        rows = self.segment.codes if self.file.endswith(CODES) else self.segment.int8
        part = rows[self.block * block_rows : (self.block + 1) * block_rows]
        return matches(part.data.cast("B"), rows.strides[0], self.crc)


def checksums(database: Database, segment: Segment, kind: str) -> list[Checksum]:
    """Of all blocks of a segment's file that are complete, and for codes of the last one, too."""
    column, file = ("int8_crc", segment.state.int8_file) if kind == INT8 else ("codes_crc", segment.state.codes_file)
    if kind == INT8 and not len(segment.int8):
        return []
    rows = database.all(
        f"SELECT block, {column} FROM blocks WHERE segment = ? AND {column} IS NOT NULL ORDER BY block",
        (segment.state.number,),
    )
    return [Checksum(segment, file, block, crc) for block, crc in rows]


def unverified(database: Database, view: View, kind: str, verified: Container[tuple[str, int]]) -> list[Checksum]:
    """Checksums that have not been compared yet; a block that grows or is being erased is left for another time."""
    size = view.layout.block_rows
    erasing = {(segment, row // size) for segment, row in view.erasing}
    found = []
    for segment in view.segments:
        n_whole = segment.state.rows // size
        if all((file, block) in verified for file in _files(segment, kind) for block in range(n_whole)):
            continue
        found += [
            each
            for each in checksums(database, segment, kind)
            if each.block < n_whole
            and (each.file, each.block) not in verified
            and (segment.state.number, each.block) not in erasing
        ]
    return found


def _files(segment: Segment, kind: str) -> Sequence[str]:
    return [segment.state.int8_file if kind == INT8 else segment.state.codes_file]


def verify_blocks(view: View, expected: Sequence[Checksum], n_jobs: int | None) -> set[tuple[str, int]]:
    """Blocks that are as they were written; `DamagedBlock` for the first that is not."""
    if not expected:
        return set()
    with ThreadPool(n_jobs) as pool:
        matching = pool.map(lambda each: each.matches(view.layout.block_rows), expected)
        for each, matches in zip(expected, matching, strict=True):
            if not matches:
                raise DamagedBlock(each.file, each.block)
    return {(each.file, each.block) for each in expected}
