"""scikit-learn estimators: step 1 (`SparseBlockMetric`), step 2 (`JointMetric`), and both (`EnsembleMetric`);
`TwoCovariance`, a similarity that may count beside step 2's metric or instead of it.

    presets       named settings of EnsembleMetric for pictures
    ensemble      EnsembleMetric: parameters, fit, fitted attributes. Its fit calls
      candidates    which settings may be chosen: what is "auto"
      cross_fitting candidates tried on folds of classes left out; codes of these classes calibrate the metric
        tuning        what a candidate and a trial are, how folds are made, which trial is the best
        use           codes as they will be used
      two_steps     both steps under one candidate, on a fold or on all samples
      schedule      the stages to come, with guesses of their seconds
    block, joint, similarity   the estimators of a single step
    steps         the steps as functions of data and settings: `run_selection`, `run_joint`, `run_similarity` call the
                  solvers; coordinates: the directions and the scale in which step 2 learns
    data          what the steps read: feature groups of labelled samples, of an array or a store; on_store: whitening
                  and target neighbours of a store, by a cluster's workers
    base          what the estimators share; validation: parameters checked; work_sizes: from how many samples on a fit
                  works otherwise
    progress      who listens to a fit, displays; time_left: how long it goes on; resume: checkpoints

Choosing settings on parts of the data that took no part in the learning, here whole classes, is cross-fitting
(Chernozhukov et al., 2018).
"""

from samekind.estimators.block import SparseBlockMetric
from samekind.estimators.ensemble import EnsembleMetric
from samekind.estimators.joint import JointMetric
from samekind.estimators.similarity import TwoCovariance

__all__ = ["EnsembleMetric", "JointMetric", "SparseBlockMetric", "TwoCovariance"]
