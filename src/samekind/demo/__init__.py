"""A small, complete example that needs no data from outside: what `samekind demo` runs.

digits    its pictures: handwritten digits, badly lit
study     extract, learn on some digits, test on the others     run_study
gallery   some of the pictures in a gallery, to be searched
report    its page
"""
