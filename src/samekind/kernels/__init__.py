"""Pure functions on arrays: no scikit-learn, no input or output, no clock.

Tile by tile, the paper's sums over all pairs (Huang, Zhu and Yu, arXiv:1212.6094) are

    distances  ->  reductions (row statistics)  ->  weights (losses)  ->  laplacian (gradients, scores: Eq. 6)
         exponentials, runs: every cell of a tile             sketch, blocks: many groups for the price of one pass

and `spectral` takes the small matrices that come out back to where a metric may be (Pi_PSD, Pi_nu), and factors them.

    called by                     kernels
    compute, relation, losses     distances, exponentials, runs, reductions
    objective                     laplacian, reductions
    solvers                       laplacian, spectral, sketch (subspace iteration: Halko, Martinsson and Tropp, 2011),
                                  scatters (within classes and between), statistics, similarity
    store, images                 halves (float16 to float32), stacks (roots and mirror means in one pass),
                                  logarithm (of covariance matrices), spectral
    model, estimators             lengths (codes by their length), flips (flip-free distances, section 4.1),
                                  principal (directions), similarity (the two-covariance model's codes)
    evaluation                    distances, reductions, ranks (retrieval by counting), nearest, similarity
    gallery                       nearest (exact search by 8-bit copies), signatures (bits of random hyperplanes)

`fused`, `blocks`, `halves`, `stacks`, `logarithm`, `nearest`, `ranks` and `signatures` are compiled by numba, as
`compiled` says; the NumPy of `exponentials` is the oracle of `fused`, and takes small tiles.
"""
