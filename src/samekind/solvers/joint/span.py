"""More features than samples: step 2 in the span of the samples, which has their number of dimensions at the most.

`Z = Y V^T`: distances between samples are those of Y. A metric that is `M` on the span and `centre I` outside of it,
`A = V M V^T + centre (I - V V^T)`, has the same distances and the least ridge.
"""

from dataclasses import replace

import numpy as np
import scipy.linalg

from samekind.kernels.spectral import Matrix, with_fixed_signs
from samekind.solvers.joint.problem import JointProblem


def has_span(problem: JointProblem) -> bool:
    """Whether there are more features than dimensions that centred samples can span, and the span is all that counts.

    A trace bound would tie the span to what a centred ridge wants outside of it.
    """
    few_samples = problem.n_features > len(problem.Z) - 1
    return few_samples and not (problem.centre > 0 and np.isfinite(problem.trace_bound))


def in_span(problem: JointProblem) -> tuple[JointProblem, Matrix]:
    """The problem on Y (N, p), and V (D, p), orthonormal, from the thin singular value decomposition of Z."""
    Z = problem.Z.astype(np.float64)
    if not np.isfinite(Z).all():
        raise ValueError("The features are not finite: they are too large for their precision. Scale them down.")
    V, lengths, _ = scipy.linalg.svd(Z.T, full_matrices=False, check_finite=False)
    floor = float(lengths.max(initial=0)) * max(Z.shape) * np.finfo(np.float64).eps
    rank = max(1, int((lengths > floor).sum()))
    V = with_fixed_signs(V[:, :rank])
    return replace(problem, Z=(Z @ V).astype(problem.Z.dtype)), V
