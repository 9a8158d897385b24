"""Features like those that step 1 makes of LFW, in any number, for sizes that LFW does not have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

PAPERS_FEATURES = 2513
CLASS_SIZE = 40  # of subLFWext
MISNAMED = 0.02  # share of pictures from the web under another's name


@dataclass(frozen=True)
class LikeLFW:
    """`x_ij = sqrt(v_j) (sqrt(p_j) b_cj + s_i sqrt(1 - p_j) w_ij)`, sample i of class c, b and w standard normal.

    `v_j = v_1 j^-0.8`, summing to 2,513 over 2,513 dimensions (intermediate features have variance 1), and
    `p_j = 1 / (1 + exp(g_j) (j / 6)^0.8)`, the share between classes: so are, about, the principal components of LFW-a
    (150 groups, 6 directions of each, learned from other people); g_j, standard normal, as they do not tell alike.
    `s_i = exp(0.3 h_i - 0.09)`, h_i standard normal, mean square 1: some pictures are worse than others.
    """

    n_features: int
    seed: int = 0

    ROWS_AT_ONCE: ClassVar[int] = 8192

    def samples(
        self, class_sizes: NDArray[np.int64], misnamed: float = 0.0
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """X (N, n_features) in float32, made block by block, and y, a share of it wrong as in pictures from the web.

        For another number of classes they are other classes, of the same kind.
        """
        rng = np.random.default_rng([self.seed, len(class_sizes)])
        between, within = self._deviations()
        centres = rng.standard_normal((len(class_sizes), self.n_features), np.float32) * between
        y = np.repeat(np.arange(len(class_sizes)), class_sizes)
        X = np.empty((len(y), self.n_features), np.float32)
        for start in range(0, len(y), self.ROWS_AT_ONCE):
            block = X[start : start + self.ROWS_AT_ONCE]
            rng.standard_normal(dtype=np.float32, out=block)
            block *= within * np.exp(0.3 * rng.standard_normal((len(block), 1), np.float32) - np.float32(0.09))
            block += centres[y[start : start + len(block)]]
        wrong = np.flatnonzero(rng.random(len(y)) < misnamed)
        y[wrong] = rng.choice(y, len(wrong))
        return X, y

    def _deviations(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Between and within classes."""
        j = np.arange(1, PAPERS_FEATURES + 1)
        v = j**-0.8 * PAPERS_FEATURES / np.sum(j**-0.8)
        g = np.random.default_rng(self.seed).standard_normal(PAPERS_FEATURES)
        p = 1 / (1 + np.exp(g) * (j / 6) ** 0.8)
        between, within = np.sqrt(v * p), np.sqrt(v * (1 - p))
        return between[: self.n_features].astype(np.float32), within[: self.n_features].astype(np.float32)


def like_sub_lfwext(n_samples: int, n_features: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Classes of 40, some samples misnamed."""
    return LikeLFW(n_features).samples(np.full(n_samples // CLASS_SIZE, CLASS_SIZE), MISNAMED)


def unequal_sizes(n_samples: int, n_classes: int) -> NDArray[np.int64]:
    """2 and more, some several times the mean, as in LFWext."""
    rng = np.random.default_rng(0)
    weights = np.exp(0.8 * rng.standard_normal(n_classes))
    return 2 + rng.multinomial(n_samples - 2 * n_classes, weights / weights.sum())
