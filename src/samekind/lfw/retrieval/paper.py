"""What the paper reports on retrieval: Tables 3 and 4, on pictures that are not public."""

from typing import NamedTuple


class Neighbors(NamedTuple):
    """A row of Table 3."""

    error: float
    map_q: float
    map_ql: float
    rank: int


class Hours(NamedTuple):
    """A cell of Table 4; None where the learner exceeded 16 GB of memory."""

    hours: float | None
    iterations: int


# By target neighbours, of 39 at most.
NEIGHBORS = {
    5: Neighbors(0.0696, 0.6563, 0.3321, 1033),
    10: Neighbors(0.0588, 0.6926, 0.3801, 816),
    15: Neighbors(0.0578, 0.7050, 0.3975, 714),
    20: Neighbors(0.0554, 0.7125, 0.4078, 649),
    25: Neighbors(0.0544, 0.7175, 0.4134, 602),
    30: Neighbors(0.0544, 0.7207, 0.4161, 572),
    35: Neighbors(0.0539, 0.7209, 0.4155, 561),
    39: Neighbors(0.0583, 0.7093, 0.3971, 594),
}

# By dimensions and target neighbours.
LMNN_ITERATIONS = 1000
HOURS: dict[str, dict[tuple[int, int], Hours]] = {
    "lmnn": {
        (dims, k): Hours(hours, LMNN_ITERATIONS)
        for dims, row in {
            100: (2.5, 3.5, 6.4),
            200: (4.3, 5.8, 13.8),
            300: (6.9, 9.7, 28.7),
            500: (15.1, 25.1, None),
            1000: (63.7, None, None),
        }.items()
        for k, hours in zip((5, 10, 30), row, strict=True)
    },
    "joint": {
        (100, 5): Hours(1.9, 71),
        (100, 10): Hours(1.6, 60),
        (100, 30): Hours(1.2, 45),
        (200, 5): Hours(6.0, 190),
        (200, 10): Hours(2.6, 80),
        (200, 30): Hours(1.9, 59),
        (300, 5): Hours(4.9, 119),
        (300, 10): Hours(3.8, 99),
        (300, 30): Hours(2.6, 70),
        (500, 5): Hours(7.1, 130),
        (500, 10): Hours(6.6, 119),
        (500, 30): Hours(4.4, 81),
        (1000, 5): Hours(10.3, 126),
        (1000, 10): Hours(10.5, 130),
        (1000, 30): Hours(7.6, 91),
    },
}
