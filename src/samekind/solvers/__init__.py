"""Algorithms 1 and 2 of the paper.

selection   step 1: Algorithm 1, feature groups, each with its own small metric
joint       step 2: Algorithm 2, one metric on the selected features
optimise    the descent methods of both
two_covariance   beside the paper: a similarity by expectation maximisation

`estimators.steps` calls the three, and each of the two algorithms calls the descent methods. `samekind.events` is what
they report, `samekind.checkpoint` what they can be resumed from.
"""
