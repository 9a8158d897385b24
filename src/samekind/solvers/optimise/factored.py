"""A = L L^T: L-BFGS on the factor, with a staircase of ranks that ends at the convex optimum.

At a stationary L, `G + ridge A + multiplier I >= 0` makes L L^T optimal among all A; where it has a negative
eigenvalue, its eigenvector is a column that L lacks (Burer and Monteiro; Journee, Bach, Absil and Sepulchre).

A leg is one run of L-BFGS: over all L until tr A exceeds its bound ("free"), on the sphere ||L||^2 = trace_bound
("sphere"), or over all L where f falls from the sphere inwards ("inside"). After the last leg of a rank L is
stationary, and is certified, widened, or taken further down by a smaller tolerance. Where the rank is unbounded this is
done as soon as gains are small: the certificate often closes, or shows what columns are missing, long before L is
stationary. All that comes after an iteration follows from the state of its leg, so that a run can be resumed in the
middle of any.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from samekind.checkpoint import Resumable
from samekind.kernels.spectral import Matrix, estimated_gap, principal_axes
from samekind.solvers.optimise import lbfgs
from samekind.solvers.optimise.certificate import Certificate, certify
from samekind.solvers.optimise.preconditioner import Preconditioner
from samekind.solvers.optimise.problem import MetricProblem
from samekind.solvers.optimise.projected import Progress, Solution
from samekind.solvers.optimise.within_class import WithinClassWhitening

Leg: TypeAlias = Literal["free", "sphere", "inside"]

# L-BFGS ends when a step lowers f by less than a share of `tol`:
SETTLED = 0.05  # where the rank is unbounded, or L is not certified
STATIONARY = 1e-3  # where it is bounded, or no column lowers f; then a tenth of it, a hundredth, ...
MAX_TIGHTENINGS = 3
MAX_SHORTENINGS = 20
# Columns are dropped when their squared length, relative to that of the longest, is below:
WITHOUT_LENGTH = 1e-12  # between two legs
NEGLIGIBLE = 1e-3  # to make place for columns along which f falls


@dataclass(frozen=True)
class FactoredState(Resumable):
    """The state of a run: the leg, and its L-BFGS, which counts the iterations of all legs."""

    leg: Leg
    run: lbfgs.LBFGSState
    settles: bool = False  # whether it ends when gains are small, before L is stationary
    tightenings: int = 0


Observer: TypeAlias = Callable[[Progress[FactoredState]], bool | None]  # `x` is L


def minimise_factored(
    problem: MetricProblem,
    L0: Matrix,
    *,
    max_rank: int,
    tol: float,
    max_iter: int,
    observe: Observer = lambda progress: None,
    resume: FactoredState | None = None,
    certified: bool = True,
    scale: float | None = None,
    coordinates: WithinClassWhitening | None = None,
    preconditioner: Preconditioner | None = None,
) -> Solution:
    """From L0, up the staircase to `max_rank` columns or to a relative gap of `tol`.

    `certified=False` stays at the rank of L0 and ends where gains are small. `scale` is that of a similar problem's
    last run, in the same `coordinates`. With `resume` neither it nor L0 is used. Where nothing bounds f from
    below, the gap is estimated, in the coordinates of the `preconditioner`.
    """
    descent = _Descent(problem, tol, max_iter, observe, coordinates)
    may_be_optimal = max_rank >= (L0 if resume is None else resume.run.x).shape[0]
    settles = may_be_optimal or not certified
    now = FactoredState("free", descent.started("free", L0, scale), settles) if resume is None else resume
    scatter = None if preconditioner is None else preconditioner.scatter
    while True:
        now = descent.to_stationary(now)
        L = principal_axes(within_trace(descent.factor(now), problem.trace_bound), WITHOUT_LENGTH)
        if not certified:
            converged = not descent.over(now)
            return Solution(L, now.run.value, np.inf, now.run.n_iter, now.run.n_evaluations, converged, now.run.scale)
        evaluation = problem.value_and_gradient(L @ L.T)
        certificate, falling = certify(problem, L @ L.T, L.shape[1], tol, known=evaluation)
        optimal = certificate.optimal or _nearly_optimal(certificate, L @ L.T, evaluation[1], preconditioner)
        if optimal or descent.over(now):
            break
        wider = _widened(problem, L, falling, max_rank, certificate, scatter)
        if wider is not None:
            now = descent.restarted(replace(now, settles=settles), wider)
        elif now.settles:
            now = replace(now, settles=False, run=replace(now.run, at_rest=False))
        elif may_be_optimal and now.tightenings < MAX_TIGHTENINGS:
            now = descent.restarted(replace(now, tightenings=now.tightenings + 1), L)
        else:
            break
    converged = optimal or not (descent.over(now) or may_be_optimal)
    value, gap, run = certificate.value, certificate.gap, now.run
    return Solution(L, value, gap, run.n_iter, run.n_evaluations, converged, run.scale, certificate)


def _nearly_optimal(certificate: Certificate, A: Matrix, G: Matrix, by: Preconditioner | None) -> bool:
    """Whether the estimated gap is closed, where no bound of f is known."""
    if np.isfinite(certificate.gap):
        return False
    gap = estimated_gap(A, G) if by is None else by.estimated_gap(A, G)
    return bool(gap <= certificate.tol * abs(certificate.value))


@dataclass
class _Descent:
    """Runs the legs of L-BFGS for one problem and one observer."""

    problem: MetricProblem
    tol: float
    max_iter: int
    observe: Observer
    coordinates: WithinClassWhitening | None
    stopped: bool = False  # by the observer
    _last: tuple[Leg, Matrix, Matrix] | None = None  # a point, which is never written to, and its factor

    def over(self, now: FactoredState) -> bool:
        return self.stopped or now.run.n_iter >= self.max_iter

    def factor(self, now: FactoredState) -> Matrix:
        return self._factor(now.leg, now.run.x)

    def _factor(self, leg: Leg, M: Matrix) -> Matrix:
        """L of a point. That of the last one is remembered: f, the trace bound and the observer need the same."""
        if self._last is None or self._last[0] != leg or self._last[1] is not M:
            self._last = leg, M, self._surface(leg).factor(M)
        return self._last[2]

    def started(
        self, leg: Leg, L: Matrix, scale: float | None = None, n_iter: int = 0, n_evaluations: int = 0
    ) -> lbfgs.LBFGSState:
        return lbfgs.started(self._function(leg), self._surface(leg).point(L), scale, n_iter, n_evaluations)

    def restarted(self, before: FactoredState, L: Matrix, leg: Leg | None = None) -> FactoredState:
        """The start of a leg from another factor: a free one, or on the sphere if the last leg ended there."""
        leg, run = leg or ("sphere" if before.leg == "sphere" else "free"), before.run
        return replace(before, leg=leg, run=self.started(leg, L, run.scale, run.n_iter, run.n_evaluations))

    def to_stationary(self, now: FactoredState) -> FactoredState:
        """Run the legs that a rank needs, until L is stationary inside the trace bound or on it."""
        now = self._to_end_of_leg(now)
        if self._has_left(now) and not self.over(now):
            now = self._to_end_of_leg(self.restarted(now, self.factor(now), "sphere"))
        if now.leg == "sphere" and not self.over(now):
            now = replace(now, run=replace(now.run, n_evaluations=now.run.n_evaluations + 1))
            if self._falls_inwards(now):
                now = self._to_end_of_leg(self.restarted(now, self.factor(now), "inside"))
        return now

    def _to_end_of_leg(self, now: FactoredState) -> FactoredState:
        if self._has_left(now):
            return now

        def listen(run: lbfgs.LBFGSState) -> bool:
            there = replace(now, run=run)
            self.stopped = bool(self.observe(Progress(self.factor(there), run.value, run.n_iter, there)))
            return self.stopped or self._has_left(there)

        run = lbfgs.descend(
            self._function(now.leg),
            now.run,
            ftol=self.tol * (SETTLED if now.settles else STATIONARY / 10**now.tightenings),
            max_iter=self.max_iter,
            rounding=self.problem.rounding,
            observe=listen,
        )
        return replace(now, run=run)

    def _has_left(self, now: FactoredState) -> bool:
        """Whether a free leg is over because the trace exceeds its bound."""
        return now.leg == "free" and _trace(self.factor(now)) > self.problem.trace_bound

    def _falls_inwards(self, now: FactoredState) -> bool:
        L = self.factor(now)
        _, gradient = self.problem.factored_value_and_gradient(L)
        return float(np.vdot(gradient, L)) > 0

    def _surface(self, leg: Leg) -> "_Free":
        if leg == "sphere":
            return _Sphere(self.coordinates, self.problem.trace_bound**0.5)
        return _Free(self.coordinates)

    def _function(self, leg: Leg) -> lbfgs.Function:
        onto = self._surface(leg)

        def value_and_gradient(M: Matrix) -> tuple[float, Matrix]:
            value, gradient = self.problem.factored_value_and_gradient(self._factor(leg, M))
            return value, onto.pull_back(M, gradient)

        return value_and_gradient


@dataclass(frozen=True)
class _Free:
    """The surface of all L = W M, in the given coordinates if any."""

    coordinates: WithinClassWhitening | None

    def point(self, L: Matrix) -> Matrix:
        return L if self.coordinates is None else self.coordinates.point(L)

    def factor(self, M: Matrix) -> Matrix:
        return M if self.coordinates is None else self.coordinates.factor(M)

    def pull_back(self, M: Matrix, gradient: Matrix) -> Matrix:
        return gradient if self.coordinates is None else self.coordinates.pulled(gradient)


@dataclass(frozen=True)
class _Sphere(_Free):
    """The sphere of L with ||L|| = radius: `L = radius * V / ||V||`."""

    radius: float

    def factor(self, M: Matrix) -> Matrix:
        V = super().factor(M)
        return self.radius / float(np.linalg.norm(V)) * V

    def pull_back(self, M: Matrix, gradient: Matrix) -> Matrix:
        V = super().factor(M)
        length = float(np.linalg.norm(V))
        across = gradient - float(np.vdot(gradient, V)) / length**2 * V
        return super().pull_back(M, self.radius / length * across)


def _widened(
    problem: MetricProblem,
    L: Matrix,
    falling: Matrix,
    max_rank: int,
    certificate: Certificate,
    scatter: Matrix | None = None,
) -> Matrix | None:
    """L with columns along which f falls, at most as many as it has; None when none lowers f.

    A full L gives up its shortest columns for them: a column of almost no length hardly moves.
    """
    if L.shape[1] == max_rank:
        L = principal_axes(L, NEGLIGIBLE, scatter)
    columns = falling[:, : min(max_rank - L.shape[1], max(1, L.shape[1]))]
    if not columns.size:
        return None
    length = _trace(L) / max(1, L.shape[1]) or 1.0
    for _ in range(MAX_SHORTENINGS):
        wider = within_trace(np.hstack([L, columns * length**0.5]), problem.trace_bound)
        value, _ = problem.factored_value_and_gradient(wider)
        if value < certificate.value:
            return wider
        length /= 4
    return None


def within_trace(L: Matrix, bound: float) -> Matrix:
    """L, shortened where ||L||^2 = tr A exceeds the bound."""
    trace = _trace(L)
    return L if trace <= bound else L * (bound / trace) ** 0.5


def _trace(L: Matrix) -> float:
    """tr L L^T"""
    return float(np.vdot(L, L))
