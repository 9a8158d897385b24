"""A fixed order of summation: a binary tree over runs of strips, the same whoever computes them.

Floating-point sums depend on their order. Here it is a function of the plan alone: strips are joined in order to leaves
(`leaves_of`), leaves in pairs to nodes, nodes in pairs, and so on. Whoever has a run of leaves reduces it as far as the
tree goes (`reduced`); whoever has all of that reduces the rest (`total_of`). Threads, processes and machines
therefore add the same numbers in the same order, and what travels is a few nodes instead of all strips.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

FEWEST_LEAVES = 8  # if there are as many strips
MOST_LEAVES = 32  # a worker without a leaf has nothing to do; each level of the tree may hold one part in memory
STRIPS_PER_LEAF = 8

Merge = Callable[[Any, Any], Any]  # the second joined to the first, which may be changed


class Node(NamedTuple):
    """A subtree, reduced: `part` of the leaves `place * 2**level` to `(place + 1) * 2**level`."""

    level: int
    place: int
    part: Any


def leaves_of(costs: Sequence[float]) -> list[range]:
    """Runs of strips of about the same cost each, all together all strips."""
    n_strips, n = len(costs), FEWEST_LEAVES
    while n_strips > n * STRIPS_PER_LEAF and n < MOST_LEAVES:
        n *= 2
    return even_runs(costs, n)


def reduced(nodes: Iterable[Node], merge: Merge) -> list[Node]:
    """Nodes in rising order, each joined with its sibling as soon as both are there."""
    left: list[Node] = []
    for node in nodes:
        while left and left[-1].level == node.level and left[-1].place % 2 == 0 and left[-1].place + 1 == node.place:
            sibling = left.pop()
            node = Node(node.level + 1, sibling.place // 2, merge(sibling.part, node.part))
        left.append(node)
    return left


def total_of(nodes: Iterable[Node], merge: Merge) -> Any:
    """The whole tree, from nodes in any order; those without a sibling are joined from the last one on."""
    left = reduced(sorted(nodes, key=lambda node: node.place << node.level), merge)
    part = left.pop().part
    while left:
        part = merge(left.pop().part, part)
    return part


def even_runs(costs: Sequence[float], n_runs: int) -> list[range]:
    """All items in runs of about the same cost; fewer runs where there are fewer items."""
    n = min(n_runs, len(costs))
    done = np.cumsum(np.asarray(costs, dtype=np.float64))
    edges = [0]
    for run in range(1, n):
        nearest = int(np.argmin(np.abs(done - done[-1] * run / n))) + 1
        edges.append(min(max(nearest, edges[-1] + 1), len(costs) - (n - run)))
    return [range(a, b) for a, b in zip(edges, [*edges[1:], len(costs)], strict=True)]
