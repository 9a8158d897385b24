"""Step 1: a sparse block diagonal metric by greedy selection of feature groups (Algorithm 1).

    greedy         the rounds of Algorithm 1                                   select_groups
      search       line 4: which group next, exactly or by lazy greedy search  ExactSearch, LazySearch
        scoring    the scores of groups, exactly or from a sketch              Scoring
      block_solvers  line 5: its block, on all pairs or on samples of them     ExactBlocks, SampledBlocks
        blocks     the problem of line 5                                       BlockProblem
      state        what a fit resumes from                                   SelectionState
      site         where it is done: features, distances so far, and recipes SelectionSite
                   of both, which workers of a cluster open too

`estimators.steps` calls `select_groups`.
"""

from samekind.solvers.selection.greedy import SelectionOptions, select_groups
from samekind.solvers.selection.state import SelectionResult, SelectionState

__all__ = ["SelectionOptions", "SelectionResult", "SelectionState", "select_groups"]
