"""Where work over pairs is done: the state that stays there, made from a recipe, and the operations on it.

A `Site` holds what the operations of one problem need: the objective, the features, the distances under the metric as
it stands. Threads work on the caller's own. A worker in another process makes its own from the site's recipe, which is
what the site is pickled as, and keeps it under its token. What happened since is a log, such as the steps of a
selection: a message has the entries that a worker lacks, and the site there is brought up to date when it is asked.

    Message   token, recipe if it is new, entries of the log, a named operation, its share, its arguments
    perform   does it on the worker's site; `Missing` says what the worker would need for that

An operation is a function of a module, `operation(objective, share, *arguments)`, the share being some leaves of the
plan or some feature groups. Distances and forms that depend on a site's data travel as recipes: functions of a module
too, with their arguments.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from samekind.compute import remarks
from samekind.threads import single_threaded_blas

MOST_SITES = 4  # that a worker keeps: those of two families with held-out anchors

Share = Sequence[int]  # leaves of a plan, or feature groups
Operation = Callable[..., Any]


class Recipe:
    """Distances or a form, made of a site's data wherever they are needed: by `make(site, leaves, *arguments)`.

    The leaves are those of the plan that distances are needed for; a form is the same for all.
    """

    def __init__(self, make: Callable[..., Any], *arguments: Any):
        self.make = make
        self.arguments = arguments

    def open(self, site: Site, leaves: Share) -> Any:
        return self.make(site, leaves, *self.arguments)


class Site:
    """State that operations work on, with a name that all workers know it by."""

    def __init__(self, token: str | None = None) -> None:
        self.token = token or uuid.uuid4().hex
        self.objective: Any = None
        self.log: list[Any] = []
        self._opened: list[tuple[Recipe, tuple[int, ...], Any]] = []
        self.memory: dict[str, tuple[int, Any]] = {}  # what is kept from one operation to the next, one of each kind

    def opened(self, recipe: Recipe, leaves: Share) -> Any:
        """What a recipe makes; the last few are remembered, as one evaluation asks for the same several times."""
        key = tuple(leaves)
        for known, of, made in self._opened:
            if known is recipe and of == key:
                return made
        made = recipe.open(self, leaves)
        self._opened = [*self._opened[-2:], (recipe, key, made)]
        return made

    def close_opened(self) -> None:
        """Let go what was opened: an operation is over."""
        self._opened = []

    def release(self) -> None:
        """The evaluation is over, be it one operation or several."""
        self.close_opened()
        self.memory.pop("distances", None)

    def close(self) -> None:
        """Nobody asks any more. Objective and site hold each other: without this their memory is free when Python's
        collector comes, and until then the next fit takes fresh memory, which costs as much as what is computed."""
        self.close_opened()
        self.memory.clear()
        self.objective = None

    def remembered(self, kind: str, number: int, make: Callable[[Any], Any]) -> Any:
        """What `make` made of the previous one of its kind, for this number."""
        before = self.memory.get(kind)
        if before is None or before[0] != number:
            before = self.memory[kind] = (number, make(None if before is None else before[1]))
        return before[1]


def opened(made: Any, site: Site | None, leaves: Share) -> Any:
    """Distances or a form as they are, or from their recipe."""
    if not isinstance(made, Recipe):
        return made
    if site is None:
        raise TypeError(f"{made.make.__name__} is a recipe, and this objective has no site to make it from.")
    return site.opened(made, leaves)


@dataclass(frozen=True)
class Message:
    worker: str  # its name: several may share a process
    ended: list[str]  # sites that it need not keep any longer
    token: str
    recipe: Any  # opens the site; None where the worker has it
    since: int  # entries of the log that the worker has
    log: list[Any]  # those after
    operation: Operation
    share: Share
    arguments: Any  # loads to a tuple


@dataclass(frozen=True)
class Missing:
    """What a worker lacks to do what it was asked."""

    site: bool
    entries: int  # of the log, that it has


@dataclass(frozen=True)
class Done:
    result: Any
    seconds: float
    remarks: Sequence[str] = ()  # what went wrong without stopping the work


_sites: defaultdict[str, OrderedDict[str, Site]] = defaultdict(OrderedDict)  # of each worker in this process
_working: defaultdict[str, threading.RLock] = defaultdict(
    threading.RLock
)  # one operation at a time: it has all threads


def perform(message: Message) -> Done | Missing:
    """Do what a message asks for, on this worker's site."""
    sites = _sites[message.worker]
    with _working[message.worker]:
        began = time.perf_counter()
        remarks.listen()
        _close(sites, message.ended)
        site = sites.get(message.token)
        if site is None:
            if message.recipe is None or message.since:
                return Missing(True, 0)
            site = sites[message.token] = message.recipe.load()
            _close(sites, list(sites)[:-MOST_SITES])
        sites.move_to_end(message.token)
        if len(site.log) < message.since:
            return Missing(False, len(site.log))
        site.log[message.since :] = message.log
        with single_threaded_blas():  # as where there are no workers: products of two BLAS threads have other last bits
            result = message.operation(site.objective, message.share, *message.arguments.load())
        site.close_opened()
        return Done(result, time.perf_counter() - began, remarks.taken())


def forget(worker: str, tokens: Sequence[str]) -> None:
    """Let sites go."""
    with _working[worker]:
        _close(_sites[worker], tokens)


def _close(sites: OrderedDict[str, Site], tokens: Sequence[str]) -> None:
    for token in tokens:
        if token in sites:
            sites.pop(token).close()
