"""The paper's second experiment, retrieval (sections 4.2 and 4.3), on LFW: `samekind retrieval`.

    people        training people, queries and distractors
    features      what step 1 makes of their pictures; principal directions; figures of codes
    settings      what is learned and compared, and the presets
    fits          a fit in a process of its own (`worker`), timed, limited, kept for a run that goes on
    synthetic     features like those of LFW, in any number
    experiment    the parts: target neighbours (Table 3), LMNN (Table 4, Figures 3 and 4), final dimensions (Figure 3),
                  section 4.3's method, and times at larger sizes
    tables, report, paper   what was found, beside the paper's figures

The paper's own sets of pictures for this experiment are not public.
"""
