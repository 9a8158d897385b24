"""A few hundred cases of each kind; `python -m tests.fuzz` runs as many as one likes."""

import sys

import pytest

room = pytest.importorskip("tests.fuzz.room") if sys.platform == "linux" else None

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits and forks as on Linux")
CASES = {"models": 250, "pictures": 600, "stores": 150, "listings": 100}


@pytest.mark.slow
@pytest.mark.parametrize("kind", CASES)
def test_nothing_that_a_file_says_crashes_hangs_or_floods(kind):
    outcome = room.run(kind, 1_000_000, CASES[kind])
    assert outcome.found == []
    assert outcome.cases == outcome.accepted + outcome.refused == CASES[kind]
    assert outcome.refused > CASES[kind] / 10
    assert outcome.most_memory < room.MEMORY


class Odd:
    """A room in which everything goes wrong."""

    def __init__(self, folder):
        pass

    def make(self, rng):
        pass

    def use(self, rng):
        number = rng.randrange(4)
        if number == 0:
            raise ValueError
        if number == 1:
            raise KeyError("a bug")
        if number == 2:
            bytearray(2 * room.MEMORY)
        if room.Path("/proc/self/stat").read_text().split()[3] == str(self.parent):
            room.os.kill(room.os.getpid(), room.signal.SIGKILL)


def test_what_goes_wrong_is_found(monkeypatch):
    """Signals, tracebacks and memory, each with its seed; the cases behind them are run all the same."""
    Odd.parent = room.os.getpid()
    monkeypatch.setitem(room.KINDS, "odd", Odd)
    monkeypatch.setattr(room, "warm_up", lambda odd: None)
    outcome = room.run("odd", 0, 24)
    numbers = [room.random.Random(seed).randrange(4) for seed in range(24)]
    assert outcome.cases == 24
    assert outcome.refused == numbers.count(0)
    assert sorted(seed for seed, _ in outcome.found) == [seed for seed, number in enumerate(numbers) if number]
    found = dict(outcome.found)
    what = {0: "", 1: "KeyError: 'a bug'", 2: "MemoryError", 3: "ended by signal 9"}
    assert all(what[number] in found.get(seed, "") for seed, number in enumerate(numbers))
