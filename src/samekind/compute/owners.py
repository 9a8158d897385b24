"""Which worker has which leaves: as few as possible change hands when workers come and go."""

from __future__ import annotations

from collections.abc import Sequence

from samekind.compute.reduction import even_runs

STRIPE = 16  # neighbouring feature groups that one worker scores: those that lead are often neighbours


class Owners:
    """Of the leaves of one plan. A leaf that changes hands costs the replay of its distances."""

    def __init__(self, costs: Sequence[float]):
        self.costs = costs
        self.of_leaf: list[str | None] = [None] * len(costs)

    def shares(self, workers: Sequence[str], leaves: Sequence[int] | None = None) -> dict[str, list[int]]:
        """Some leaves, or all, of each worker that has any; `workers` are those that are there."""
        if not any(owner in workers for owner in self.of_leaf):
            for worker, run in zip(workers, even_runs(self.costs, len(workers)), strict=False):
                for leaf in run:
                    self.of_leaf[leaf] = worker
        load = {worker: self._load(worker) for worker in workers}
        for leaf in sorted(range(len(self.costs)), key=lambda leaf: -self.costs[leaf]):
            if self.of_leaf[leaf] not in load:
                self._give(leaf, min(load, key=lambda worker: load[worker]), load)
        self._level(load)
        chosen = range(len(self.costs)) if leaves is None else sorted(leaves)
        shares: dict[str, list[int]] = {}
        for leaf in chosen:
            shares.setdefault(str(self.of_leaf[leaf]), []).append(leaf)
        return shares

    def _level(self, load: dict[str, float]) -> None:
        """From the worker with most to the one with least, as long as that makes the larger of both smaller."""
        for _ in self.costs:
            most, least = max(load, key=lambda w: load[w]), min(load, key=lambda w: load[w])
            own = [leaf for leaf, owner in enumerate(self.of_leaf) if owner == most]
            leaf = min(own, key=lambda leaf: self.costs[leaf])
            if load[least] + 1.5 * self.costs[leaf] > load[most]:
                break
            self._give(leaf, least, load)

    def _give(self, leaf: int, worker: str, load: dict[str, float]) -> None:
        before = self.of_leaf[leaf]
        if before in load:
            load[before] -= self.costs[leaf]
        self.of_leaf[leaf] = worker
        load[worker] += self.costs[leaf]

    def _load(self, worker: str) -> float:
        return sum(cost for cost, owner in zip(self.costs, self.of_leaf, strict=True) if owner == worker)


def striped(groups: Sequence[int], workers: Sequence[str]) -> dict[str, list[int]]:
    """Places of groups, by worker: each has stripes of neighbours, the same ones every time."""
    shares: dict[str, list[int]] = {}
    for at, k in enumerate(groups):
        shares.setdefault(workers[(k // STRIPE) % len(workers)], []).append(at)
    return shares
