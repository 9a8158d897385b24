"""Descent for convex functions of a matrix, and over its factor.

    projected        projected quasi-Newton with a bound on the gap                  (Schmidt et al., 2009)
    factored         A = L L^T: L-BFGS up a staircase of ranks, with a certificate   (Burer and Monteiro, 2003)
      lbfgs          limited-memory BFGS whose whole state can be written down       (Nocedal, 1980)
      within_class   coordinates whitened within classes
    preconditioner   coordinates in which the scale of features does not matter
    certificate      how far a metric is from the optimum
    problem          what a descent needs to know of a problem

`solvers.selection` and `solvers.joint` call the two descents; these use only the value, gradient and
projection of a problem.
"""
