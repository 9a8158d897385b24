"""The paper's experiment on LFW (section 4.1), or on anyone's pictures with a protocol in its formats.

presets     what is chosen, and the presets
stages      what is learned for each split
study       a view's splits: learn, measure, judge
learning    step 1 of a family, step 2 on what step 1 chose
measuring   distances of the protocol's pairs
workplace   where results are kept, and what they were made with
tables, report, paper
"""
