"""A sparse block diagonal metric over feature groups: what step 1 learns, and bases are made of."""

from dataclasses import dataclass, field

import numpy as np

from samekind.kernels.spectral import RANK_SHARE, Matrix, leading_factor, spreads_along


@dataclass
class BlockMetric:
    """A sparse block diagonal A: one small matrix per chosen group, in order of first choice."""

    blocks: dict[int, Matrix] = field(default_factory=dict)
    scatters: dict[int, Matrix] = field(default_factory=dict)  # of the groups' samples, centred, where they are known
    _whole: dict[int, Matrix] = field(default_factory=dict, repr=False)  # L_k of each block, of all eigenvalues

    def block(self, k: int, size: int) -> Matrix:
        return self.blocks.get(k, np.zeros((size, size)))

    def add(self, k: int, A: Matrix, alpha: float, scatter: Matrix | None = None) -> None:
        """A <- alpha A + A_k; `scatter` is `Z^T Z / N` of the group."""
        if scatter is not None:
            self.scatters[k] = scatter
        present = self.block(k, len(A))
        self.blocks = {j: alpha * B for j, B in self.blocks.items()}
        self.blocks[k] = alpha * present + A
        self._whole = {j: alpha**0.5 * L for j, L in self._whole.items()}
        self._whole[k] = leading_factor(self.blocks[k], share=0.0)

    def norm(self) -> float:
        return float(np.sqrt(sum(np.vdot(A, A) for A in self.blocks.values())))

    def factors(self) -> dict[int, Matrix]:
        """L_k with `A_k = L_k L_k^T`, without columns that are negligible beside the largest of all blocks.

        Blocks of rank 0 are left out.
        """
        squares = {k: (L**2).sum(axis=0) for k, L in self._whole.items()}
        spreads = {k: spreads_along(L, self.scatters.get(k, np.eye(len(L)))) for k, L in self._whole.items()}
        shortest, narrowest = (
            RANK_SHARE * max((float(each.max(initial=0)) for each in of.values()), default=0.0)
            for of in (squares, spreads)
        )
        kept = {k: L[:, (squares[k] > shortest) | (spreads[k] > narrowest)] for k, L in self._whole.items()}
        return {k: L for k, L in kept.items() if L.shape[1]}

    def rank(self) -> int:
        return sum(L.shape[1] for L in self.factors().values())
