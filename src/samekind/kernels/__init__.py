"""Pure functions on arrays: no scikit-learn, no input or output, no clock.

Tile by tile, the paper's sums over all pairs are

    distances  ->  reductions (row statistics)  ->  weights (losses)  ->  laplacian (gradients, scores)

and `spectral` takes the small matrices that come out back to where a metric may be.
"""
