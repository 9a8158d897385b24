"""Ways to spoil bytes and JSON, drawn from a generator of random numbers: a seed gives a case."""

import contextlib
import copy
import json
import math

ODD = [
    *(
        0,
        1,
        -1,
        2,
        255,
        256,
        300,
        65_536,
        2**31,
        -(2**31),
        2**32,
        2**63 - 1,
        -(2**63),
        2**63,
        10**30,
        10**400,
        -(10**400),
    ),
    *(0.0, -0.0, 0.5, -1.5, 1e-320, 1e-30, 1e30, 1e308, -1e308, math.inf, -math.inf, math.nan),
    *("", "a", "cov", "slbp", "cov@0.5", "slbp+r2", "none", "unit", "mean", "\0", "\ud800", "x" * 5000, "../a"),
    *(None, True, False, [], {}, [[]], [None], {"a": 1}, [1, 2, 3, 4], [0] * 50, [[0, 0, 8, 8]] * 3),
]


def check_json(result):
    """What --json prints; that it cannot be printed is no refusal."""
    try:
        json.dumps(result, allow_nan=False)
    except ValueError as error:
        raise AssertionError(f"not JSON: {error}") from error


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


def places(tree, path=()):
    """Paths of all values of a JSON tree; of long lists the first few and the last."""
    yield path
    if isinstance(tree, dict):
        for name in tree:
            yield from places(tree[name], (*path, name))
    elif isinstance(tree, list):
        for at in {*range(min(len(tree), 4)), len(tree) - 1} - {-1}:
            yield from places(tree[at], (*path, at))


def spoilt_json(rng, tree):
    """A copy with some values replaced, removed, doubled, or put elsewhere."""
    tree = copy.deepcopy(tree)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        *parents, last = rng.choice([path for path in places(tree) if path])
        at = tree
        for name in parents:
            at = at[name]
        kind = rng.random()
        if kind < 0.7:
            at[last] = copy.deepcopy(rng.choice(ODD)) if rng.random() < 0.97 else nested(rng.choice([50, 200]))
        elif kind < 0.8:
            del at[last]
        elif kind < 0.9 and isinstance(at, list):
            at.insert(rng.randrange(len(at) + 1), copy.deepcopy(at[last]))
        elif isinstance(at[last], int | float) and not isinstance(at[last], bool):
            step = rng.choice([-1, 1, 100, -100, 0.5])
            with contextlib.suppress(OverflowError):  # a whole number that no float holds
                at[last] += step
        else:
            at[last] = copy.deepcopy(
                rng.choice([at[name] for name in (at if isinstance(at, dict) else range(len(at)))])
            )
        if not tree or not any(path for path in places(tree)):
            break
    return tree


def spoilt_bytes(rng, data, first=None):
    """Some bytes changed, put in, left out or repeated; `first`: mostly among so many at the beginning."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 3, 8, 30])):
        end = min(first, len(data)) if first and rng.random() < 0.8 else len(data)
        at, kind = rng.randrange(max(end, 1)), rng.random()
        if kind < 0.5 and data:
            data[at % len(data)] = rng.choice([0, 1, 9, 10, 13, 32, 35, 45, 95, 127, 128, 254, 255, rng.randrange(256)])
        elif kind < 0.65:
            data[at:at] = rng.randbytes(rng.choice([1, 2, 4, 100]))
        elif kind < 0.8:
            del data[at : at + rng.choice([1, 2, 4, 100, 10_000])]
        elif kind < 0.9:
            data[at : at + 4] = rng.choice(
                [b"\xff" * 4, b"\x7f\xff\xff\xff", bytes(4), b"\x00\x01\x00\x00", b"\0\0\xff\xff"]
            )
        else:
            data[at:at] = data[at : at + rng.choice([4, 30, 300])] * rng.choice([1, 2, 50])
    return bytes(data)
