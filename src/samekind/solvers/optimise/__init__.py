"""Descent for convex functions of a matrix, and over its factor.

    projected        projected quasi-Newton with a bound on the gap                  (Schmidt et al., 2009)
    factored         A = L L^T: L-BFGS up a staircase of ranks, with a certificate   (Burer and Monteiro, 2003)
      lbfgs          limited-memory BFGS whose whole state can be written down       (Nocedal, 1980)
      within_class   coordinates whitened within classes
    preconditioner   coordinates that make the scale of features harmless
    certificate      how far a metric is from the optimum

`solvers.selection` and `solvers.joint` call the two descents; these know a problem by its value, gradient and
projection alone.
"""
