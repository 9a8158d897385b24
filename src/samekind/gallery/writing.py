"""Rows of codes into segments, and out of them for good. All of it inside a write transaction of the database.

Appending: rows are written behind the committed ones and made durable; then the transaction states that they exist.
A block that is full is quantised. Erasing overwrites committed rows in place, in both files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from samekind.gallery.checksums import RUN_ROWS, extended, renewed
from samekind.gallery.database import Database
from samekind.gallery.forms import CodeForm
from samekind.gallery.layout import CODES, INT8, Layout, RowsWriter, create_rows_file, new_name
from samekind.kernels.types import Array

Place = tuple[int, int]  # segment, row


@dataclass(frozen=True)
class Writer:
    """Writes rows of one model of a gallery."""

    database: Database
    folder: Path
    gallery: str
    layout: Layout
    model: int
    form: CodeForm

    @property
    def _code_bytes(self) -> int:
        return 4 * self.form.length

    @property
    def _int8_bytes(self) -> int:
        from samekind.kernels.nearest import row_bytes

        return row_bytes(self.form.width)

    def append(self, codes: NDArray[np.float32]) -> list[Place]:
        """Durable rows; where each code is."""
        places: list[Place] = []
        while len(places) < len(codes):
            segment, codes_file, rows = self._open_segment()
            part = codes[len(places) : len(places) + self.layout.segment_rows - rows]
            self._append_to(segment, codes_file, rows, part)
            places += [(segment, rows + at) for at in range(len(part))]
        return places

    def new_segment(self) -> int:
        number = self.database.one("SELECT coalesce(max(seq), 0) + 1 FROM sqlite_sequence WHERE name = 'segments'")[0]
        codes_file, int8_file = new_name(number, CODES), new_name(number, INT8)
        create_rows_file(self.folder, codes_file, self.gallery, self._code_bytes)
        create_rows_file(self.folder, int8_file, self.gallery, self._int8_bytes)
        self.database.run("INSERT INTO segments VALUES (?, ?, ?, ?, 0, 0)", (number, self.model, codes_file, int8_file))
        return int(number)

    def _open_segment(self) -> tuple[int, str, int]:
        """The last segment, or a new one where that is full: number, file, rows."""
        query = "SELECT segment, codes_file, rows FROM segments WHERE model = ? ORDER BY segment DESC LIMIT 1"
        found = self.database.one(query, (self.model,))
        if found is None or found[2] >= self.layout.segment_rows:
            self.new_segment()
            found = self.database.one(query, (self.model,))
        return found[0], found[1], found[2]

    def _append_to(self, segment: int, codes_file: str, rows: int, codes: NDArray[np.float32]) -> None:
        with writing_rows(self.folder / codes_file, self._code_bytes, committed=rows) as file:
            start = rows
            while start < rows + len(codes):
                block = start // self.layout.block_rows
                stop = min((block + 1) * self.layout.block_rows, rows + len(codes))
                content = np.ascontiguousarray(codes[start - rows : stop - rows]).tobytes()
                file.write(start, content)
                self._note_checksum(segment, block, start, content)
                if stop == (block + 1) * self.layout.block_rows:
                    self._quantise(segment, block, self._read_codes(file, block))
                start = stop
        self.database.run(
            "UPDATE segments SET rows = rows + ?, live = live + ? WHERE segment = ?", (len(codes), len(codes), segment)
        )

    def _note_checksum(self, segment: int, block: int, start: int, content: bytes) -> None:
        before, n_before = b"", start % self.layout.block_rows
        if n_before:
            query = "SELECT codes_crc FROM blocks WHERE segment = ? AND block = ?"
            before = self.database.one(query, (segment, block))[0]
        self.database.run(
            "INSERT INTO blocks (segment, block, codes_crc) VALUES (?, ?, ?) "
            "ON CONFLICT (segment, block) DO UPDATE SET codes_crc = excluded.codes_crc",
            (segment, block, extended(before, n_before, content, self._code_bytes)),
        )

    def _read_codes(self, file: RowsWriter, block: int) -> NDArray[np.float32]:
        content = file.read(block * self.layout.block_rows, self.layout.block_rows)
        return np.frombuffer(content, np.float32).reshape(-1, self.form.length)

    def _quantise(self, segment: int, block: int, codes: Array) -> None:
        from samekind.kernels.nearest import quantised

        rows, scales = quantised(codes[:, : self.form.width], self.form.offsets(codes))
        content = rows.tobytes()
        (name,) = self.database.one("SELECT int8_file FROM segments WHERE segment = ?", (segment,))
        first = block * self.layout.block_rows
        with writing_rows(self.folder / name, self._int8_bytes, committed=first) as file:
            file.write(first, content)
        self.database.run(
            "UPDATE blocks SET int8_crc = ?, scales = ? WHERE segment = ? AND block = ?",
            (extended(b"", 0, content, self._int8_bytes), scales.tobytes(), segment, block),
        )

    def requantise(self, segment: int) -> None:
        """Make the quantised copy of a segment again, in a file of its own; the old one is no longer named."""
        codes_file, rows = self.database.one("SELECT codes_file, rows FROM segments WHERE segment = ?", (segment,))
        name = new_name(segment, INT8)
        create_rows_file(self.folder, name, self.gallery, self._int8_bytes)
        self.database.run("UPDATE segments SET int8_file = ? WHERE segment = ?", (name, segment))
        self.database.run("UPDATE blocks SET int8_crc = NULL, scales = NULL WHERE segment = ?", (segment,))
        with writing_rows(self.folder / codes_file, self._code_bytes, committed=rows) as file:
            for block in range(rows // self.layout.block_rows):
                self._quantise(segment, block, self._read_codes(file, block))

    def erase(self, segment: int, rows: Sequence[int]) -> None:
        """Overwrite rows in both files, and note the checksums of what is there now."""
        from samekind.kernels.nearest import absent_row

        codes_file, int8_file, n_rows = self.database.one(
            "SELECT codes_file, int8_file, rows FROM segments WHERE segment = ?", (segment,)
        )
        quantised = {
            block
            for (block,) in self.database.all(
                "SELECT block FROM blocks WHERE segment = ? AND scales IS NOT NULL", (segment,)
            )
        }
        copied = [row for row in rows if row // self.layout.block_rows in quantised]
        # The quantised copy first: a reader that sees one file changed and not the other excludes the row.
        if copied and (self.folder / int8_file).exists():
            absent = absent_row(self.form.width)
            with writing_rows(self.folder / int8_file, self._int8_bytes) as file:
                for row in copied:
                    file.write(row, absent)
                self._renew_checksums(segment, file, copied, n_rows, "int8_crc")
        nothing = np.full(self.form.length, np.nan, np.float32).tobytes()
        with writing_rows(self.folder / codes_file, self._code_bytes) as file:
            for row in rows:
                file.write(row, nothing)
            self._renew_checksums(segment, file, rows, n_rows, "codes_crc")

    def _renew_checksums(self, segment: int, file: RowsWriter, rows: Iterable[int], n_rows: int, column: str) -> None:
        """Of the runs that these rows are in."""
        size = self.layout.block_rows
        for block, run in sorted({(row // size, row % size // RUN_ROWS) for row in rows}):
            first = block * size + run * RUN_ROWS
            content = file.read(first, min(RUN_ROWS, (block + 1) * size - first, n_rows - first))
            where = (segment, block)
            (before,) = self.database.one(f"SELECT {column} FROM blocks WHERE segment = ? AND block = ?", where)
            self.database.run(
                f"UPDATE blocks SET {column} = ? WHERE segment = ? AND block = ?",
                (renewed(before, run, content), *where),
            )


@contextmanager
def writing_rows(path: Path, row_bytes: int, committed: int | None = None) -> Iterator[RowsWriter]:
    """A file to write rows to, durable at the end; after an error only `committed` rows are left, where given."""
    with ExitStack() as stack:
        file = RowsWriter(path, row_bytes)
        stack.callback(file.close)
        try:
            yield file
            file.sync()
        except BaseException as error:
            if committed is not None:
                file.cut(committed)
            if isinstance(error, OSError) and error.filename is None:
                error.filename = str(path)  # a full disk names no file
            raise


def by_segment(places: Iterable[Place]) -> dict[int, list[int]]:
    rows: dict[int, list[int]] = defaultdict(list)
    for segment, row in places:
        rows[segment].append(row)
    return rows
