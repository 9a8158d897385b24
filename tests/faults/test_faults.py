"""Whatever stops a verb that writes: the same command, run again, ends with the same bytes."""

import os
import random
import sys
import time

import pytest

if sys.platform != "linux":
    pytest.skip("forks and signals as on Linux", allow_module_level=True)

from tests.faults import disks, harness
from tests.faults.harness import TARGETS, run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults")
    harness.prepare(folder)
    return folder


@pytest.fixture(scope="module")
def undisturbed(home):
    return harness.undisturbed(home)


@pytest.fixture(autouse=True)
def clean(home):
    yield
    harness.forget(home)


@pytest.mark.parametrize("name", TARGETS)
def test_kills_at_random_moments_end_with_the_same_bytes(home, undisturbed, name):
    target, (expected, seconds) = TARGETS[name], undisturbed[name]
    rng = random.Random(name)
    for _ in range(4):
        run(home, target.arguments, harness.random_kill(rng, seconds))
    status, said = run(home, target.arguments)
    assert status == 0, said
    assert target.left(home) == expected
    assert not list(home.glob("new.npy.*"))


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("call", [1, 2])
def test_a_full_disk_is_said_and_costs_nothing(home, undisturbed, name, call):
    target = TARGETS[name]
    status, said = run(home, target.arguments, harness.full_at(call))
    if status:  # the last file may be there already
        assert status == 2
        assert "Traceback" not in said
        assert "space" in said.lower() or "full" in said.lower()
        assert ".samekind-" not in said
    status, said = run(home, target.arguments)
    assert status == 0, said
    assert target.left(home) == undisturbed[name][0]


@pytest.fixture(scope="module")
def disk(home, undisturbed, tmp_path_factory):
    """Of its own; gives its folder, and a function that changes it."""
    folder = tmp_path_factory.mktemp("disks") / "small"
    with disks.small_disk(folder, home) as change:
        yield folder, change


@pytest.mark.parametrize("name", TARGETS)
def test_a_disk_that_fills_up_is_said_and_costs_nothing(disk, undisturbed, name):
    (folder, change), target = disk, TARGETS[name]
    change(disks.size(disks.PLENTY))
    empty = disks.used(folder)
    assert run(folder, target.arguments)[0] == 0
    needed = disks.used(folder) - empty
    harness.forget(folder)
    for share in (0.02, 0.4, 0.8):
        change(disks.size(int(empty + share * needed)))
        status, said = run(folder, target.arguments)
        assert status == 2, said
        assert "Traceback" not in said
        assert any(word in said.lower() for word in ("space", "room", "full"))
        assert name != "codes" or not target.left(folder)  # codes and their table: both, or neither
        assert ".samekind-" not in said
    change(disks.size(disks.PLENTY))
    status, said = run(folder, target.arguments)
    assert status == 0, said
    assert target.left(folder) == undisturbed[name][0]
    harness.forget(folder)


@pytest.mark.parametrize("name", TARGETS)
def test_a_disk_that_is_read_only_is_named(disk, undisturbed, name):
    (folder, change), target = disk, TARGETS[name]
    change("ro")
    try:
        status, said = run(folder, target.arguments)
    finally:
        change("rw")
    assert status == 2, said
    assert "Traceback" not in said
    assert "new." in said
    assert "read-only" in said.lower()


@pytest.mark.parametrize("name", TARGETS)
def test_a_place_that_takes_no_files_is_named(home, undisturbed, name):
    target = TARGETS[name]
    status, said = run(home, target.arguments, harness.read_only)
    assert status == 2
    assert "Traceback" not in said
    assert ".samekind-" not in said
    assert ".lock" not in said
    assert "new." in said or name == "checkpoint"


@pytest.mark.parametrize("name", ["store", "joined", "lfw", "retrieval"])
def test_two_writers_of_a_folder_leave_what_one_would(home, undisturbed, name):
    target = TARGETS[name]
    children = [harness.start(home, target.arguments) for _ in range(2)]
    statuses = sorted(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)
    assert statuses[0] == 0
    assert statuses[1] in (0, 2)  # the other has found it locked, or finished
    assert target.left(home) == undisturbed[name][0]


@pytest.mark.parametrize("name", ["model", "codes"])
def test_two_writers_of_a_file_leave_one_of_both(home, undisturbed, name):
    target = TARGETS[name]
    children = [harness.start(home, target.arguments) for _ in range(2)]
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0]
    assert target.left(home) == undisturbed[name][0]


@pytest.mark.parametrize("name", ["store", "joined", "gallery", "lfw", "retrieval"])
def test_a_reader_beside_a_writer_sees_what_is_whole(home, undisturbed, name):
    target = TARGETS[name]
    child = harness.start(home, target.arguments)
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        harness.readable(home)
        time.sleep(0.002)
    harness.readable(home)
    assert target.left(home) == undisturbed[name][0]
