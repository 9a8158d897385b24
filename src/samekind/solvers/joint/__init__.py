"""Step 2: one joint metric on the features that step 1 selected (Algorithm 2).

    algorithm        the stages one by one, and what comes of them                 solve_joint
      stages         how many anchors a stage has, what it reports, when it ends   Stage
      stage_solvers  over A by projected descent, over L by factored descent       ConvexSolver, FactoredSolver
      problem        f over A, and over L with A = L L^T                           JointProblem
      state          settings, what a fit resumes from, and its result             JointOptions, JointState, JointResult
      site           where it is done: the features, and recipes of distances      JointSite
                     and gradients, which workers of a cluster open too

`estimators.steps` calls `solve_joint`, with more features than samples on their span; the descents are those of
`solvers.optimise`.
"""

from samekind.solvers.joint.algorithm import solve_joint
from samekind.solvers.joint.problem import JointProblem
from samekind.solvers.joint.state import JointOptions, JointResult, JointState

__all__ = ["JointOptions", "JointProblem", "JointResult", "JointState", "solve_joint"]
