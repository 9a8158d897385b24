"""What a worker logs as a warning while it works, for the driver to say as well: nobody watches a worker's output."""

from __future__ import annotations

import logging
import queue


class _Remarks(logging.StreamHandler):  # type: ignore[type-arg]
    """Prints warnings of this package, and keeps their texts."""

    def __init__(self) -> None:
        super().__init__()
        self.setLevel(logging.WARNING)
        self.kept: queue.SimpleQueue[str] = queue.SimpleQueue()

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        self.kept.put(record.getMessage())


_remarks = _Remarks()


def listen() -> None:
    """From now on; asked for again it changes nothing."""
    logging.getLogger("samekind").addHandler(_remarks)


def taken() -> list[str]:
    """The texts since this was last asked."""
    texts = []
    while True:
        try:
            texts.append(_remarks.kept.get_nowait())
        except queue.Empty:
            return texts
