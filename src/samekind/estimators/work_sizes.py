"""Numbers of samples from which on a fit works otherwise, and sizes of the samples that it draws."""

from dataclasses import dataclass

from samekind.solvers.joint import JointOptions
from samekind.solvers.selection import SelectionOptions
from samekind.solvers.selection.block_solvers import SampleOptions


@dataclass(frozen=True)
class WorkSizes:
    """An attribute of an estimator's class, not a parameter: tests derive a class with smaller sizes for small data."""

    few_samples: int = 1_000  # up to here one thread does the pairs sooner than several
    many_samples: int = 2_000  # from so many on one fold is enough to choose on, and several cost too much
    copy_share: float = 1 / 16  # of the memory budget: descriptors that take less are kept in memory, beside the budget
    fewest_anchors: int = SelectionOptions.fewest_anchors
    first_sample: int = SampleOptions.first  # of step 1's blocks
    first_anchors: int = JointOptions.first_anchors  # of step 2's growing samples
