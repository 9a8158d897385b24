"""A process that changes a gallery and is killed at random moments, again and again; run by test_crashes.py.

python -m tests.gallery.crashes ADDRESS SEED KILLS
"""

import json
import os
import random
import signal
import sys
import time
from functools import partial

import numpy as np

from samekind import Metric
from samekind.gallery import Gallery
from tests.gallery.cases import LENGTH, SMALL, all_bytes

MODELS = [Metric.linear((1 + m) * np.eye(LENGTH), np.arange(LENGTH), LENGTH) for m in range(2)]
LONGEST = 0.12  # seconds until a kill


def code_of(number, model):
    return np.random.default_rng([number, model]).standard_normal(LENGTH).astype(np.float32)


def codes_for(model, records):
    return [code_of(int(record.note), model) for record in records]


def say_to(pipe, message):
    os.write(pipe, json.dumps(message).encode() + b"\n")


def model_of(gallery):
    return [model.fingerprint for model in MODELS].index(gallery.fingerprint)


def change(folder, seed, first_number, say):
    """Changes one after the other, each announced and acknowledged, until the process is killed."""
    rng, number = random.Random(seed), first_number
    with Gallery.open(folder) as gallery:
        while True:
            kind = rng.choice(["add", "add", "remove", "replace", "compact", "reencode"])
            model, records = model_of(gallery), gallery.find()
            if kind == "add":
                numbers = list(range(number, number + rng.randint(1, 30)))
                number = numbers[-1] + 1
                say({"begin": kind, "numbers": numbers})
                codes = [code_of(each, model) for each in numbers]
                ids = gallery.add(codes, note=[str(each) for each in numbers], model=MODELS[model])
                say({"end": kind, "ids": ids.tolist()})
            elif kind == "remove" and records:
                ids = [record.id for record in rng.sample(records, min(len(records), rng.randint(1, 12)))]
                say({"begin": kind, "ids": ids})
                gallery.remove(ids)
                say({"end": kind})
            elif kind == "replace" and records:
                number += 1
                at = rng.choice(records).id
                say({"begin": kind, "id": at, "number": number})
                gallery.replace(at, code_of(number, model), note=str(number))
                say({"end": kind})
                number += 1
            elif kind == "compact":
                say({"begin": kind})
                gallery.compact()
                say({"end": kind})
            elif kind == "reencode":
                say({"begin": kind})
                gallery.reencode(MODELS[1 - model], partial(codes_for, 1 - model), batch=9)
                if rng.random() < 0.7:
                    gallery.switch()
                else:
                    gallery.abandon()
                say({"end": kind})


class Expected:
    """What a gallery must hold after the acknowledged changes, and may hold after the last one."""

    def __init__(self):
        self.numbers = {}  # id -> number
        self.gone = []

    def follow(self, messages):
        """All changes that ended; returns the one that did not."""
        pending = None
        for message in messages:
            if "begin" in message:
                pending = message
            else:
                self.apply(pending, message)
                pending = None
        return pending

    def apply(self, begun, ended):
        if begun["begin"] == "add":
            self.numbers |= dict(zip(ended["ids"], begun["numbers"], strict=True))
        elif begun["begin"] == "remove":
            self.gone += [self.numbers.pop(at) for at in begun["ids"]]
        elif begun["begin"] == "replace":
            self.gone.append(self.numbers[begun["id"]])
            self.numbers[begun["id"]] = begun["number"]

    def settle(self, pending, found):
        """The last change happened as a whole, or not at all."""
        if pending is not None and pending["begin"] == "add":
            new = {at: number for at, number in found.items() if at not in self.numbers}
            assert list(new.values()) in ([], pending["numbers"]), (pending, new)
            self.apply(pending, {"ids": sorted(new)}) if new else None
        elif pending is not None and pending["begin"] == "remove":
            left = [at for at in pending["ids"] if at in found]
            assert left in ([], pending["ids"]), (pending, left)
            self.apply(pending, {}) if not left else None
        elif pending is not None and pending["begin"] == "replace" and found[pending["id"]] == pending["number"]:
            self.apply(pending, {})
        assert found == self.numbers


def wait_for_server(gallery):
    """A killed client's transaction may end a little later than the client."""
    others = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND pid != pg_backend_pid()"
    while gallery._server.one(others, (gallery._server.schema,))[0]:
        time.sleep(0.01)


def check(folder, expected, pending):
    with Gallery.open(folder) as gallery:
        on_disk = hasattr(gallery, "path")
        if not on_disk:
            wait_for_server(gallery)
        report = gallery.check()
        assert report.sound, report.problems
        expected.settle(pending, {record.id: int(record.note) for record in gallery.find()})
        ids, model = sorted(expected.numbers), model_of(gallery)
        codes = np.array([code_of(expected.numbers[at], model) for at in ids], np.float32).reshape(-1, LENGTH)
        assert np.array_equal(gallery.codes(ids), codes)
        for at in range(0, len(ids), 40):
            assert gallery.search(codes[at], 1, n_jobs=1).hits[0].record.id == ids[at]
        content = all_bytes(gallery) if on_disk else b""
        for number in expected.gone[-200:]:
            assert not any(code_of(number, m).tobytes() in content for m in range(2)), number
        if gallery.next_model is not None:
            gallery.abandon()


def main(folder, seed, kills):
    rng = random.Random(seed)
    Gallery.create(folder, MODELS[0], layout=SMALL).close()
    expected, number, during = Expected(), 0, {}
    for kill in range(kills):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            try:
                change(folder, seed + kill, number, partial(say_to, write))
            finally:
                os._exit(1)
        os.close(write)
        time.sleep(rng.uniform(0, LONGEST))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), f"the writer failed by itself, with status {status}"
        with os.fdopen(read, "rb") as pipe:
            messages = [json.loads(line) for line in pipe.read().splitlines()]
        pending = expected.follow(messages)
        number += 100_000
        during[pending["begin"] if pending else "nothing"] = (
            during.get(pending["begin"] if pending else "nothing", 0) + 1
        )
        check(folder, expected, pending)
    sys.stdout.write(f"{during} {len(expected.numbers)} records, {len(expected.gone)} gone\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
