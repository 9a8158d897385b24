"""Codes as a search sees them: a vector and a number per row, ranked by `||u - q||^2 + s`.

Plain codes are vectors with s = 0. Codes of a model with `mirror="distances"` are [m, sqrt(v)], with u = m and s = v.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
        length = model.n_components + (model.mirror == "distances")
        return cls(checked_length(length), model.n_components, model)

    @classmethod
    def plain(cls, length: int) -> CodeForm:
        return cls(checked_length(length), length, None)

    def offsets(self, codes: Array) -> NDArray[np.float64]:
        """The number s of each row (n,), in float64."""
        return split_codes(self.model, codes)[1]

    def query(self, code: Array) -> tuple[NDArray[np.float64], float]:
        """Vector and number of one code."""
        vectors, offsets = split_codes(self.model, code[np.newaxis])
        return vectors[0].astype(np.float64), float(offsets[0])


def split_codes(model: Metric | None, codes: Array) -> tuple[Array, NDArray[np.float64]]:
    """Vectors (n, r), the leading numbers of codes, and numbers (n,): distances are `||u - u'||^2 + s + s'`."""
    if model is None or codes.shape[1] == model.n_components:
        return codes, np.zeros(len(codes))
    return codes[:, :-1], codes[:, -1].astype(np.float64) ** 2


def checked_length(length: int) -> int:
    if not 1 <= length <= MOST_NUMBERS:
        raise GalleryError(f"A gallery holds codes of 1 to {MOST_NUMBERS} numbers; got {length}.")
    return length
