"""The paper's experiment on LFW (section 4.1), or on anyone's pictures with a protocol in its formats.

    protocol      View 1 and View 2: people, pairs, where their images are (protocol_files: the text of the files)
    experiment    a view's splits: learn, measure, judge. It calls, for each of its `runs` (a split and its pairs),
      faces         the descriptors: some regions of each family of a store
      learning      step 1 of a family, step 2 on what step 1 chose, by the public learner
      measuring     distances of the protocol's pairs
      workplace     where results are kept, and what they were made with
      reporter      progress of the experiment
    presets       what is chosen, and the presets; `stages` names what is learned for each split
    tables, report, paper   what was found, beside the paper's figures

The protocol is of use without the experiment: its names are here.
"""

from samekind.lfw.protocol import (
    Split,
    Subset,
    View2,
    image_rows,
    missing_images,
    pair_rows,
    read_pairs,
    read_people,
    read_view1,
    read_view2,
)

__all__ = [
    "Split",
    "Subset",
    "View2",
    "image_rows",
    "missing_images",
    "pair_rows",
    "read_pairs",
    "read_people",
    "read_view1",
    "read_view2",
]
