"""Sums over rectangles."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from samekind.images.integral import integral_image

shapes = st.tuples(st.integers(1, 12), st.integers(1, 12), st.integers(1, 4))


@given(shapes.flatmap(lambda shape: hnp.arrays(np.float32, shape, elements=st.floats(-8, 8, width=16))))
def test_it_holds_the_sum_of_all_above_and_to_the_left(channels):
    integral = integral_image(channels)
    H, W, _ = channels.shape
    for y in range(H + 1):
        for x in range(W + 1):
            np.testing.assert_allclose(integral[y, x], channels[:y, :x].sum(axis=(0, 1), dtype=float), atol=1e-9)
