"""Step 2: one joint metric on the features that step 1 selected (Algorithm 2).

    algorithm        stages on growing samples of the rows, then on all            solve_joint, JointResult
      stage_solvers  over A by projected descent, over L by factored descent       ConvexSolver, FactoredSolver
      monitor        reports iterations, and ends a stage within its noise         StageMonitor
      schedule       how many anchors a stage has, and when it ends
      problem        f over A, and over L with A = L L^T                           JointProblem
      state          what a fit resumes from                                       JointState
      site           where it is done: the features, and recipes of distances      JointSite
                     and gradients, which workers of a cluster open too

`estimators.steps` calls `solve_joint`, with more features than samples on their span; the descents are those of
`solvers.optimise`.
"""

from samekind.solvers.joint.algorithm import JointOptions, JointResult, choose_solver, solve_joint
from samekind.solvers.joint.problem import JointProblem
from samekind.solvers.joint.state import JointState

__all__ = ["JointOptions", "JointProblem", "JointResult", "JointState", "choose_solver", "solve_joint"]
