"""A fit that is killed goes on from its checkpoint and ends as if nothing had happened; no other fit may."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

import samekind
from samekind import EnsembleMetric, JointMetric, SparseBlockMetric
from samekind.estimators import resume
from samekind.estimators.progress import Listeners
from samekind.solvers.joint import JointOptions
from tests import cases
from tests.stores import disk_store

FAMILIES = [("left", 1)] * 16 + ["right"] * 16
SMALL_SAMPLES = {"first_anchors": 40, "first_sample": 60}


@dataclass(frozen=True)
class Fit:
    """An estimator, where its process is killed, and sizes by which small data are sampled."""

    kind: str
    parameters: dict
    step: str
    iteration: int
    sizes: dict = field(default_factory=dict)

    def estimator(self, **more):
        families = {"families": FAMILIES} if self.parameters.get("families") else {}
        learner = cases.with_sizes(getattr(samekind, self.kind)(), **self.sizes)
        return learner.set_params(**self.parameters | families | more)

    def as_json(self, name, folder):
        return vars(self) | {"name": name, "checkpoint": str(folder)}


BLOCKS = {"feature_groups": 2, "ridge": 0.01, "random_state": 3, "max_groups": 6}
BOTH = {
    "feature_groups": 2,
    "random_state": 3,
    "loss": "triplet",
    "families": True,
    "max_groups": 3,
    "n_components": 6,
    "cv": None,
    "selection__ridge": 0.01,
    "selection__search": "fast",
    "joint__ridge": 0.01,
    "joint__anchors": "grow",
    "joint__target": "zero",
}
FITS = {
    "fast blocks": Fit("SparseBlockMetric", BLOCKS | {"search": "fast"}, "selection", 4, SMALL_SAMPLES),
    "exact blocks": Fit("SparseBlockMetric", BLOCKS | {"search": "exact", "loss": "triplet"}, "selection", 3),
    "growing joint": Fit(
        "JointMetric",
        {"n_components": 8, "loss": "triplet", "anchors": "grow", "ridge": 0.01, "random_state": 3},
        "joint",
        16,
        SMALL_SAMPLES,
    ),
    "convex joint": Fit("JointMetric", {"solver": "convex", "anchors": "all", "ridge": 0.01}, "joint", 8),
    "growing convex joint": Fit(
        "JointMetric",
        {"solver": "convex", "loss": "triplet", "anchors": "grow", "ridge": 0.01, "random_state": 3, "tol": 1e-5},
        "joint",
        8,
        SMALL_SAMPLES,
    ),
    "ensemble in step 1": Fit("EnsembleMetric", BOTH, "selection", 2),
    "ensemble in step 2": Fit("EnsembleMetric", BOTH | {"joint__solver": "factored"}, "joint", 6, SMALL_SAMPLES),
    "ensemble around step 1": Fit(
        "EnsembleMetric", BOTH | {"joint__target": "identity", "joint__ridge": 1e-4, "joint__tol": 1e-6}, "joint", 12
    ),
}

# Each fit in a process of its own, which says where it is, and waits in its callback to be killed.
NURSERY = """
import json, os, sys, time
import numpy as np
from sklearn.datasets import load_digits
import samekind
from samekind.estimators.work_sizes import WorkSizes

fits = json.loads(sys.stdin.read())
X, y = load_digits(return_X_y=True)
families = [("left", 1)] * 16 + ["right"] * 16

def fitted(fit):
    kind = getattr(samekind, fit["kind"])
    kind = type(fit["kind"], (kind,), {"_work_sizes": WorkSizes(**fit["sizes"])})
    parameters = fit["parameters"]
    if "families" in parameters:
        parameters["families"] = families
    seen = []

    def wait(event):
        seen.append(event.step)
        if event.step == fit["step"] and seen.count(event.step) == fit["iteration"]:
            os.write(1, f"{os.getpid()} {fit['name']}\\n".encode())
            time.sleep(600)

    model = kind().set_params(**parameters, checkpoint=fit["checkpoint"], callback=wait)
    model.fit(X[:240] / 16, y[:240])
    os.write(1, f"0 {fit['name']} came to its end\\n".encode())

children = []
for fit in fits:
    child = os.fork()
    if not child:
        fitted(fit)
        os._exit(0)
    children.append(child)
print(json.dumps([os.waitpid(child, 0)[1] for child in children]))
"""


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:240] / 16, y[:240]


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """Folders of fits whose processes were killed where they said."""
    if not hasattr(os, "fork"):
        pytest.skip("processes are forked and killed as on POSIX")
    folder = tmp_path_factory.mktemp("killed")
    described = json.dumps([fit.as_json(name, folder / name.replace(" ", "-")) for name, fit in FITS.items()])
    nursery = subprocess.Popen(
        [sys.executable, "-c", NURSERY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        start_new_session=True,
    )
    try:
        nursery.stdin.write(described)
        nursery.stdin.close()
        for _ in FITS:
            pid, name = nursery.stdout.readline().split(maxsplit=1)
            assert int(pid), name
            os.kill(int(pid), signal.SIGKILL)
        ends = json.loads(nursery.stdout.readline())
    except BaseException:
        os.killpg(nursery.pid, signal.SIGKILL)
        raise
    finally:
        nursery.stdout.close()
        nursery.wait()
    assert {os.WTERMSIG(end) for end in ends} == {signal.SIGKILL}
    return folder


each_fit = pytest.mark.parametrize(("fit", "name"), [(fit, name) for name, fit in FITS.items()], ids=FITS)


def heard(estimator, X, y):
    """The fitted estimator, and (step, iteration) of the events that it reported."""
    events = []
    estimator.set_params(callback=lambda event: events.append((event.step, event.iteration))).fit(X, y)
    return estimator, events


def assert_the_same(one, other):
    np.testing.assert_allclose(
        one.components_, other.components_, rtol=1e-6, atol=1e-6 * np.abs(other.components_).max()
    )
    assert one.objective_ == pytest.approx(other.objective_, rel=1e-6)
    assert one.threshold_ == pytest.approx(other.threshold_, rel=1e-6)
    if hasattr(other, "selected_groups_"):
        assert one.selected_groups_.tolist() == other.selected_groups_.tolist()
        assert one.stopped_because_ == other.stopped_because_
    assert len(one.history_) == len(other.history_)
    for record, expected in zip(one.history_, other.history_, strict=True):
        assert record.keys() == expected.keys()
        for key, value in expected.items():
            exact = isinstance(value, str | bool | int | tuple) or value is None
            assert record[key] == (value if exact else pytest.approx(value, rel=1e-5, abs=1e-9)), key


@pytest.mark.slow
@each_fit
def test_a_killed_fit_ends_as_if_nothing_had_happened(fit, name, killed, digits):
    folder = killed / name.replace(" ", "-")
    whole, all_events = heard(fit.estimator(), *digits)
    resumed, events = heard(fit.estimator(checkpoint=folder), *digits)
    assert_the_same(resumed, whole)
    # Nothing is done again but what was under way, and of step 2 the iterations since it was last written down.
    assert events == all_events[len(all_events) - len(events) :]
    done = len(all_events) - len(events)
    at_kill = [at for at, (step, _) in enumerate(all_events) if step == fit.step][fit.iteration - 1]
    again = at_kill - done
    assert again == 0 if fit.step == "selection" else 0 <= again <= JointOptions().keep_every
    assert done > 0
    # And from a fit that came to its end there is hardly anything to do.
    ended, last_events = heard(fit.estimator(checkpoint=folder), *digits)
    assert_the_same(ended, whole)
    assert "selection" not in {step for step, _ in last_events}
    assert len(last_events) <= JointOptions().keep_every


# -- in one process ---------------------------------------------------------------------------------------------------

SIZES = (6, 5, 4, 6, 5, 4)
X, Y = cases.labelled_data(SIZES, 12, spread=2.0, dtype=np.float32)
SMALL = {
    "blocks": SparseBlockMetric(2, max_groups=4, search="fast", random_state=0),
    "joint": JointMetric(3, random_state=0, loss="triplet", max_iter=8),
    "ensemble": EnsembleMetric(2, max_groups=3, n_components=3, random_state=0, cv=None).set_params(
        selection__max_iter=8, joint__max_iter=8
    ),
}


@pytest.fixture(params=SMALL)
def small(request):
    return clone(SMALL[request.param])


def stopped_after(n):
    """A callback that ends the fit at its nth event."""
    seen = []

    def callback(event):
        seen.append(event)
        return len(seen) == n

    return callback


def never(event):
    raise AssertionError("work was done")


def begun(estimator, folder, n_events=2, **changes):
    """A fit that was stopped on its way."""
    estimator.set_params(checkpoint=folder, callback=stopped_after(n_events), **changes).fit(X, Y)
    estimator.set_params(callback=None)
    return estimator


def test_a_fit_that_the_callback_ended_goes_on(small, tmp_path):
    whole = clone(small).fit(X, Y)
    begun(small, tmp_path)
    assert len(small.history_) < len(whole.history_)
    small.fit(X, Y)
    assert_the_same(small, whole)


def test_a_checkpoint_changes_nothing(small, tmp_path):
    whole = clone(small).fit(X, Y)
    kept = small.set_params(checkpoint=str(tmp_path / "a" / "b")).fit(X, Y)
    assert kept.metric_ == whole.metric_
    assert kept.history_ == whole.history_
    assert any((tmp_path / "a" / "b").iterdir())


CHANGES = [
    ("blocks", {"ridge": 0.3}, "ridge"),
    ("blocks", {"loss": "triplet"}, "loss"),
    ("blocks", {"search": "exact"}, "search"),
    ("blocks", {"max_groups": 5}, "max_groups"),
    ("blocks", {"random_state": 1}, "random_state"),
    ("blocks", {"feature_groups": 3}, "feature groups"),
    ("joint", {"anchors": 7}, "anchors"),
    ("joint", {"n_components": 4}, "n_components"),
    ("joint", {"tol": 0.5}, "tol"),
    ("ensemble", {"families": [0, 0, 0, 1, 1, 1]}, "families"),
    ("ensemble", {"selection__score_norm": "spectral"}, "score_norm"),
    ("ensemble", {"joint__ridge": 0.5}, "ridge"),
    ("ensemble", {"selection__whiten": 2}, "whiten"),
    ("ensemble", {"weigh": 1.0}, "weigh"),
    ("ensemble", {"normalise_groups": "unit"}, "normalise_groups"),
    ("ensemble", {"cv": 2}, "cv"),
]


@pytest.mark.parametrize(("kind", "change", "named"), CHANGES, ids=lambda value: str(value))
def test_other_settings_are_refused(kind, change, named, tmp_path):
    estimator = begun(clone(SMALL[kind]), tmp_path)
    with pytest.raises(
        ValueError, match=rf"has .*{named} = .*but this fit has .*Give the data and settings of that fit"
    ):
        estimator.set_params(**change).fit(X, Y)


def test_families_of_the_same_sizes_but_other_groups_are_refused(tmp_path):
    estimator = begun(clone(SMALL["ensemble"]), tmp_path, families=[0, 0, 0, 1, 1, 1])
    with pytest.raises(ValueError, match=r"has .*families.* = .*but this fit has "):
        estimator.set_params(families=[0, 1, 0, 1, 0, 1]).fit(X, Y)


def changed(X, where=(0, 0)):
    other = X.copy()
    other[where] += 1
    return other


OTHER_DATA = {
    "another value": (changed(X), Y),
    "another value in the middle": (changed(X, (17, 5)), Y),
    "the last value": (changed(X, (-1, -1)), Y),
    "other columns in the middle": (changed(X, np.s_[:, 4:-4]), Y),
    "more precise": (X.astype(np.float64), Y),
    "fewer samples": (X[:-1], Y[:-1]),
    "fewer features": (X[:, :-2], Y),
    "other labels": (X, np.roll(Y, 1)),
    "other order": (X[::-1], Y[::-1]),
}


@pytest.mark.parametrize("data", OTHER_DATA)
def test_other_data_are_refused(small, data, tmp_path):
    begun(small, tmp_path)
    with pytest.raises(ValueError, match="Give the data and settings of that fit"):
        small.fit(*OTHER_DATA[data])


@pytest.mark.parametrize("kind", ["blocks", "ensemble"])
@pytest.mark.parametrize("what", ["columns", "rows"])
def test_other_data_are_refused_wherever_they_differ(kind, what, tmp_path):
    """A fingerprint of the first and the last group, in 64 of 200 rows, was not enough."""
    wide, labels = cases.labelled_data((40,) * 5, 24, dtype=np.float32)
    others = np.setdiff1d(np.arange(200), np.linspace(0, 199, 64).astype(int))
    assert len(others) == 136
    other = changed(wide, np.s_[:, 4:-4] if what == "columns" else others)
    estimator = clone(SMALL[kind]).set_params(checkpoint=tmp_path, callback=stopped_after(1)).fit(wide, labels)
    with pytest.raises(ValueError, match="Give the data and settings of that fit"):
        estimator.set_params(callback=never).fit(other, labels)


def test_other_rows_of_a_store_on_disk_are_refused(tmp_path):
    store = disk_store(tmp_path / "store", X, Y, {"a": 3, "b": 2})
    other = disk_store(tmp_path / "other", changed(X, (9, 7)), Y, {"a": 3, "b": 2})
    again = disk_store(tmp_path / "again", X, Y, {"a": 3, "b": 2})
    estimator = clone(SMALL["blocks"]).set_params(feature_groups=1, checkpoint=tmp_path / "checkpoint")
    rows = np.arange(len(Y) - 1)
    estimator.set_params(callback=stopped_after(1)).fit(store, Y, rows=rows)
    for data, some in ((other, rows), (store, rows + 1)):
        with pytest.raises(ValueError, match="Give the data and settings of that fit"):
            estimator.set_params(callback=never).fit(data, Y, rows=some)
    estimator.set_params(callback=None).fit(again, Y, rows=rows)


@pytest.mark.slow
def test_a_fit_stopped_in_a_fold_goes_on_there(tmp_path):
    """Folds and candidates are steps of the checkpoint, each with a name of its own."""
    learner = EnsembleMetric(3, max_groups=2, n_components=3, random_state=0, cv=2, normalise="none", weigh=1.0)
    learner.set_params(joint__max_iter=8, normalise_groups="none")
    whole, all_events = heard(clone(learner), X, Y)

    def killed(event):
        events.append((event.step, event.iteration))
        if len(events) == len(all_events) // 2:
            raise KeyboardInterrupt

    events = []
    with pytest.raises(KeyboardInterrupt):
        clone(learner).set_params(checkpoint=tmp_path, callback=killed).fit(X, Y)
    assert events == all_events[: len(events)]
    resumed, last_events = heard(clone(learner).set_params(checkpoint=tmp_path), X, Y)
    assert resumed.metric_.basis == whole.metric_.basis
    np.testing.assert_allclose(resumed.transform(X), whole.transform(X), rtol=1e-5, atol=1e-6)
    assert [trial.candidate for trial in resumed.trials_] == [trial.candidate for trial in whole.trials_]
    np.testing.assert_allclose(
        [trial.score for trial in resumed.trials_], [trial.score for trial in whole.trials_], rtol=1e-6
    )
    assert resumed.threshold_ == pytest.approx(whole.threshold_, rel=1e-5)
    assert len(last_events) < len(all_events)


def test_another_estimator_is_refused(tmp_path):
    begun(clone(SMALL["blocks"]), tmp_path)
    with pytest.raises(ValueError, match="'SparseBlockMetric', but this fit has 'EnsembleMetric'"):
        clone(SMALL["ensemble"]).set_params(checkpoint=tmp_path).fit(X, Y)


def test_labels_by_other_names_are_the_same_data(small, tmp_path):
    whole = clone(small).fit(X, Y)
    begun(small, tmp_path)
    assert_the_same(small.fit(X, np.array([f"class {label}" for label in Y])), whole)


def test_threads_and_displays_may_change(small, tmp_path):
    whole = clone(small).fit(X, Y)
    begun(small, tmp_path, n_jobs=1)
    assert_the_same(small.set_params(n_jobs=2).fit(X, Y), whole)


def test_codes_may_be_normalised_otherwise(small, tmp_path):
    whole = clone(small).set_params(normalise="unit").fit(X, Y)
    begun(small, tmp_path)
    heard(small, X, Y)
    again, events = heard(small.set_params(normalise="unit"), X, Y)
    assert_the_same(again, whole)
    assert len(events) < len(whole.history_)
    np.testing.assert_allclose(np.linalg.norm(again.transform(X), axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("budgets", [("2KB", "512MB"), ("512MB", "2KB")], ids=["more", "less"])
def test_the_memory_may_change(budgets, tmp_path):
    """A fast search may go on with all pairs what it began with anchors for want of room, or the other way round."""
    estimator = begun(cases.with_sizes(SMALL["blocks"], fewest_anchors=8), tmp_path, memory_budget=budgets[0])
    chosen = [record["group"] for record in estimator.history_]
    estimator.set_params(memory_budget=budgets[1]).fit(X, Y)
    assert [record["group"] for record in estimator.history_][:2] == chosen


def test_a_seed_that_was_drawn_is_remembered(tmp_path):
    def blocks(**more):
        return SparseBlockMetric(2, max_groups=4, search="fast", **more)

    np.random.seed(3)  # noqa: NPY002 - what random_state=None draws from
    whole = blocks().fit(X, Y)
    np.random.seed(3)  # noqa: NPY002
    begun(blocks(), tmp_path)
    np.random.seed(99)  # noqa: NPY002
    other = blocks().fit(X, Y)
    resumed = blocks(checkpoint=tmp_path).fit(X, Y)
    assert resumed.history_ == whole.history_
    assert resumed.metric_ == whole.metric_
    assert other.history_ != whole.history_


def test_a_seed_of_numpy_is_a_seed(tmp_path):
    estimator = begun(clone(SMALL["blocks"]), tmp_path, random_state=np.int64(5))
    whole = clone(SMALL["blocks"]).set_params(random_state=5).fit(X, Y)
    with pytest.raises(ValueError, match="random_state"):
        estimator.set_params(random_state=np.int64(6)).fit(X, Y)
    assert_the_same(estimator.set_params(random_state=np.int64(5)).fit(X, Y), whole)


@pytest.mark.parametrize("spoil", [lambda whole: whole[:-9], lambda whole: b"", lambda whole: b"hello" * 99])
def test_a_damaged_snapshot_is_named(small, spoil, tmp_path):
    begun(small, tmp_path, n_events=3)
    for path in sorted(tmp_path.iterdir()):
        content = path.read_bytes()
        path.write_bytes(spoil(content))
        with pytest.raises(ValueError, match=rf"{path.name}: this is no snapshot of a fit.*delete this file"):
            small.fit(X, Y)
        path.write_bytes(content)
    small.fit(X, Y)


def test_where_no_group_helps_there_is_nothing_to_do_again(tmp_path):
    for search in ("exact", "fast"):
        estimator = SparseBlockMetric(2, search=search, checkpoint=tmp_path / search)
        for _ in range(2):
            with pytest.warns(ConvergenceWarning, match="The learned metric is zero"):
                estimator.fit(np.zeros_like(X), Y)
            assert estimator.n_iter_ == 0


# -- before any work --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        *(("blocks", {"search": bad}, "search=.* is not known") for bad in ("quick", None, 5, "")),
        *(("ensemble", {"selection__search": bad}, "search=.* is not known") for bad in ("Fast", True)),
        *(("joint", {"anchors": bad}, "anchors=") for bad in ("some", 0, -3, 2.5, True, None, [7])),
        *(("ensemble", {"joint__anchors": bad}, "anchors=") for bad in ("few", 0)),
        *((kind, {"checkpoint": 5}, "checkpoint=5 must be None or the path of a folder") for kind in SMALL),
        *(("blocks", {"checkpoint": bad}, "checkpoint=") for bad in (True, ["a"], b"a")),
    ],
    ids=str,
)
def test_parameters_that_make_no_sense_are_said_so(kind, change, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        clone(SMALL[kind]).set_params(**{"checkpoint": "folder", "callback": never} | change).fit(X, Y)
    assert not any(tmp_path.iterdir())


def test_a_file_is_no_checkpoint(small, tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(NotADirectoryError, match="A checkpoint is a folder"):
        small.set_params(checkpoint=tmp_path / "file", callback=never).fit(X, Y)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(("seconds", "kept"), [(0.5, [0, 1, 2, 3, 4, 5]), (4.0, [0, 3])], ids=["fast", "slow"])
def test_states_that_take_long_to_write_are_written_seldom(monkeypatch, seconds, kept):
    """A twentieth of the time at most: of 4 seconds each, with 30 seconds of work between two states."""
    clock, saved = SimpleNamespace(now=0.0), []
    monkeypatch.setattr(resume, "time", SimpleNamespace(monotonic=lambda: clock.now))

    class Disk:
        def save(self, name, snapshot):
            saved.append(snapshot.facts["at"])
            clock.now += seconds

    record = resume.StepRecord(Disk(), "step2", Listeners(0, None), None)
    for at in range(6):
        record.keep(SimpleNamespace(arrays=dict, facts=lambda at=at: {"at": at}))
        clock.now += 30
    assert saved == kept
