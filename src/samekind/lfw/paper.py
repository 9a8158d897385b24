"""What the paper reports on LFW: Tables 1 and 2."""

from typing import NamedTuple


class Figure(NamedTuple):
    """Mean over ten folds, and standard deviation."""

    mean: float
    spread: float | None = None


Families = tuple[str, ...]

# By the names of our families. Its D is 13,260 x 45.
DIMENSIONS: dict[Families, int] = {("cov",): 596_700, ("slbp",): 596_700}
RANKS: dict[int, dict[Families, Figure]] = {
    1: {("cov",): Figure(1627, 53), ("slbp",): Figure(1507, 34)},
    2: {("cov",): Figure(1312, 15), ("slbp",): Figure(1179, 10), ("cov", "slbp"): Figure(2302, 21)},
}
ERRORS: dict[int, dict[Families, Figure]] = {
    1: {("cov",): Figure(0.116, 0.013), ("slbp",): Figure(0.145, 0.02)},
    2: {("cov",): Figure(0.083, 0.011), ("slbp",): Figure(0.100, 0.013), ("cov", "slbp"): Figure(0.074, 0.014)},
}

# Accuracy in percent, as printed. The spreads of the other methods are a third of the paper's own, as standard errors
# of ten folds would be.
ACCURACIES = {
    "LDML-MkNN, funneled": Figure(87.50, 0.40),
    "LBP multishot, aligned": Figure(85.17, 0.61),
    "combined multishot, aligned": Figure(89.50, 0.51),
    "LBP PLDA, aligned": Figure(87.33, 0.55),
    "combined PLDA, funneled & aligned": Figure(90.07, 0.51),
    "face.com r2011b": Figure(91.30, 0.30),
    "the paper: CMD, aligned": Figure(91.70, 1.10),
    "the paper: SLBP, aligned": Figure(90.00, 1.33),
    "the paper: CMD + SLBP, aligned": Figure(92.58, 1.36),
}
