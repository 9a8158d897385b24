"""The similarity term of a metric: a vector and a number of each sample, beside the codes or instead of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samekind.kernels.similarity import similarity_offsets
from samekind.model.fields import Floats, checked_components, finite_floats, read_only


@dataclass(frozen=True, slots=True, eq=False)
class Similarity:
    """u = components z - shift and s = - sum_j shares_j u_j^2 of the features z of a basis.

    Two samples differ by ||u - u'||^2 + s + s', twice the negative log-likelihood ratio of the two-covariance model up
    to a constant and a factor (`samekind.kernels.similarity`).

    Parameters
    ----------
    components : array (r, n_codes)
    shift : array (r,)
    shares : array (r,), from 0 to 1
        1 / (1 + b), b the variance of class centres in units of that within classes. 0: a plain squared distance.
    """

    components: Floats
    shift: Floats
    shares: Floats

    def __post_init__(self) -> None:
        components = checked_components(self.components, np.shape(self.components)[-1])
        checked = {"components": components}
        for name in ("shift", "shares"):
            values = finite_floats(getattr(self, name), f"similarity {name}")
            if values.shape != (len(components),):
                raise ValueError(
                    f"{name} of a similarity must be {len(components)} numbers, one for each component, but has shape "
                    f"{values.shape}."
                )
            checked[name] = read_only(values, values.dtype.type)
        if (checked["shares"] < 0).any() or (checked["shares"] > 1).any():
            raise ValueError("shares of a similarity must be from 0 to 1.")
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def n_codes(self) -> int:
        """Numbers of a sample: those of its vector, and one."""
        return len(self.components) + 1

    def __call__(self, Z: Floats) -> Floats:
        """[u, s] of features (n, n_codes of the basis): (n, r + 1), in the precision of the features."""
        U = Z @ self.components.T.astype(Z.dtype, copy=False) - self.shift.astype(Z.dtype, copy=False)
        return np.column_stack([U, similarity_offsets(U, self.shares)])

    def times(self, weight: float) -> Similarity:
        """The same, its differences multiplied."""
        root = self.components.dtype.type(weight**0.5)
        return Similarity(self.components * root, self.shift * root, self.shares)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a file keeps."""
        return {"components": self.components, "shift": self.shift, "shares": self.shares}
