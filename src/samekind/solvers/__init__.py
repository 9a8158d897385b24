"""Algorithms 1 and 2 of the paper.

selection   step 1: Algorithm 1, which feature groups, each with its own small metric
joint       step 2: Algorithm 2, one metric on what was selected
optimise    the descents that both use
events      what they report while they work
"""
