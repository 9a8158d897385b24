"""Pictures that tests share."""

import numpy as np
from scipy.ndimage import gaussian_filter


def face_like(height=150, width=110, *, seed=0):
    """Smooth structure of several scales with edges, between 0 and 1."""
    rng = np.random.default_rng(seed)
    layers = [gaussian_filter(rng.standard_normal((height, width)), scale) * scale for scale in (1, 3, 9, 20)]
    picture = sum(layers)
    picture[height // 3 :, width // 2 :] += 0.7
    picture -= picture.min()
    return (picture / picture.max()).astype(np.float32)


def random_regions(height, width, n, *, least=3, seed=0):
    """(n, 4): top, left, height, width."""
    rng = np.random.default_rng(seed)
    h, w = rng.integers(least, height + 1, n), rng.integers(least, width + 1, n)
    return np.column_stack([rng.integers(0, height - h + 1), rng.integers(0, width - w + 1), h, w])
