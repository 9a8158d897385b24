"""The command line: one file per verb, called by `main`.

extract, fit, verify, encode, index, search, gallery, doctor, evaluate, evaluate_retrieval, info, compact, serve,
worker, demo, lfw, retrieval
            the verbs: options in, a call of the library, results out
options     options that several verbs share, and how their texts are read
output      what is printed: results on stdout, progress and errors on stderr
status      the exit status of every command
progress    progress of a fit, and what is said when it is interrupted
experiments what the paper's experiments share (lfw, retrieval)
pictures    pictures to codes with a model (verify, encode, index, search, evaluate)
frontend    how pictures become descriptors (extract)
described   stores and models in words
"""

from samekind.cli.main import main

__all__ = ["main"]
