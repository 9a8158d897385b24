"""What travels to workers and back, as bytes; large arrays of a recipe stay in files of a folder that all can read.

Dask pickles every task anyway, so whoever may submit tasks may run code on the workers: this is transport between
processes that trust each other (see docs/scaling.md on TLS), never a file format. Arrays are files in NumPy's format,
mapped into memory where they are opened, so that the workers of a machine share one copy.
"""

from __future__ import annotations

import contextlib
import io
import pickle
import secrets
import shutil
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samekind.feature_store import FeatureStore
from samekind.files import whole_file

LARGE = 1 << 20  # bytes of an array from which on it is a file


@dataclass(frozen=True)
class Packed:
    data: bytes | memoryview

    def load(self) -> Any:
        return pickle.loads(self.data)


def packed(value: Any) -> Packed:
    return Packed(pickle.dumps(value, protocol=5))


class SharedFolder:
    """Packs recipes, their large arrays into files of a new folder below `parent`, which `close` removes.

    `stripes`: a folder of each worker's own disk, into which workers copy what they read of stores.
    """

    def __init__(self, parent: Path, stripes: Path | None = None):
        self.stripes = stripes
        self.folder = Path(parent).absolute() / f"samekind-cluster-{secrets.token_hex(6)}"
        self.folder.mkdir(parents=True)
        self._arrays: weakref.WeakValueDictionary[Path, NDArray[Any]] = weakref.WeakValueDictionary()  # by their files

    def packed(self, value: Any) -> Packed:
        buffer = io.BytesIO()
        _Pickler(self, buffer).dump(value)
        return Packed(buffer.getvalue())

    def path_of(self, array: NDArray[Any]) -> Path:
        """A file of the array's numbers; it goes when the array goes."""
        for path, known in self._arrays.items():
            if known is array:
                return path
        path = self.folder / f"{secrets.token_hex(8)}.npy"
        with whole_file(path) as file:
            np.lib.format.write_array(file, array, allow_pickle=False)
        self._arrays[path] = array
        weakref.finalize(array, path.unlink, missing_ok=True).atexit = False
        return path

    def close(self) -> None:
        with contextlib.suppress(OSError):
            shutil.rmtree(self.folder)


class _Pickler(pickle.Pickler):
    def __init__(self, shared: SharedFolder, file: io.BytesIO):
        super().__init__(file, protocol=5)
        self.shared = shared

    def reducer_override(self, value: Any) -> Any:
        if type(value) in (np.ndarray, np.memmap) and value.nbytes >= LARGE and value.dtype.kind in "fiub":
            return open_array, (str(self.shared.path_of(value)),)
        if self.shared.stripes is not None and isinstance(value, FeatureStore):
            copied = value.copied_into(self.shared.stripes)
            return NotImplemented if copied is value else copied.__reduce__()
        return NotImplemented


def open_array(path: str) -> NDArray[Any]:
    """Mapped into memory; whoever writes to it changes a copy of their own."""
    try:
        return np.asarray(np.load(path, mmap_mode="c", allow_pickle=False))
    except FileNotFoundError as error:
        error.strerror = (
            "No such file on this worker. The folder of shared arrays must be one that all workers see: name such a "
            "folder (--shared, or cluster(shared=...))"
        )
        raise
