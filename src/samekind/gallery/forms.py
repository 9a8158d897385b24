"""Codes as a search sees them: a vector and a number per row, ranked by `||u - q||^2 + s`.

Plain codes are vectors with s = 0; codes of other models have one number more than their vectors
(`Metric.split_codes`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samekind.gallery.errors import GalleryError
from samekind.kernels.types import Array
from samekind.model.metric import Metric

MOST_NUMBERS = 4096  # of a code: the slack of the search's bound covers sums of so many terms


@dataclass(frozen=True)
class CodeForm:
    """How the codes of one model are compared."""

    length: int  # numbers of a code
    width: int  # leading numbers that are the vector
    model: Metric | None

    @classmethod
    def of_model(cls, model: Metric) -> CodeForm:
        length = checked_length(model.n_components + (model.mirror == "distances"))
        vectors, _ = model.split_codes(np.zeros((1, length)))
        return cls(length, vectors.shape[1], model)

    @classmethod
    def plain(cls, length: int) -> CodeForm:
        return cls(checked_length(length), length, None)

    def offsets(self, codes: Array) -> NDArray[np.float64]:
        """The number s of each row (n,), in float64; where codes have one, it is made of their last number."""
        if self.model is None:
            return np.zeros(len(codes))
        return self.model.split_codes(codes[:, -1:].astype(np.float64))[1].astype(np.float64)

    def checked(self, codes: ArrayLike) -> NDArray[np.float32]:
        """(n, length) in float32, finite; one code (length,) is taken for (1, length)."""
        given = np.asarray(codes)
        rows = given[np.newaxis] if given.ndim == 1 else given
        if rows.ndim != 2 or rows.shape[1] != self.length:
            raise GalleryError(
                f"Codes of this gallery have {self.length} numbers; got an array of shape {given.shape}. Encode with "
                "the gallery's own model."
            )
        with np.errstate(over="ignore"):
            converted = np.ascontiguousarray(rows, np.float32)
        if not np.isfinite(converted).all():
            raise GalleryError("Codes must be finite in float32, but some are not. Leave those out.")
        return converted

    def query(self, code: Array) -> tuple[NDArray[np.float64], float]:
        """Vector and number of one code."""
        return code[: self.width].astype(np.float64), float(self.offsets(code[np.newaxis])[0])


def checked_length(length: int) -> int:
    if not 1 <= length <= MOST_NUMBERS:
        raise GalleryError(f"A gallery holds codes of 1 to {MOST_NUMBERS} numbers; got {length}.")
    return length
