"""A protocol of a dozen people with pictures of them, as LFW has it, and settings for it."""

from contextlib import contextmanager
from dataclasses import replace

import cv2
import numpy as np

from samekind.estimators.presets import MANY_FACES
from samekind.lfw.presets import ExperimentSettings
from samekind.lfw.protocol_files import Image, Pair, Person, pairs_text, people_text
from tests.images.pictures import face_like

N_FOLDS, PEOPLE_A_FOLD, PICTURES = 3, 4, 3
NAMES = [f"Person_{chr(65 + number)}" for number in range(N_FOLDS * PEOPLE_A_FOLD)]
FOLDS = [NAMES[start : start + PEOPLE_A_FOLD] for start in range(0, len(NAMES), PEOPLE_A_FOLD)]
VIEW1 = NAMES[::2], NAMES[1::2]  # to learn from, and to test on

LEARNER = {
    "roots": False,
    "max_groups": 3,
    "n_components": 5,
    "principal": 10,
    "selection__whiten": 8,
    "selection__ridge": 0.1,
    "selection__min_per_class": 1,
    "selection__max_per_class": None,
    "joint__ridge": 0.1,
}
SETTINGS = ExperimentSettings(24, MANY_FACES | LEARNER)
OPTIONS = ["--preset=standard", "--regions=24", *(f"--set={name}={value}" for name, value in LEARNER.items())]


def settings(**changes):
    """`SETTINGS` with other settings of the learner."""
    return replace(SETTINGS, learner=SETTINGS.learner | changes)


def pairs_of(names):
    """Two of every person, and as many of neighbours."""
    same = [Pair(Image(name, 1), Image(name, number)) for name in names for number in (2, 3)]
    others = [
        Pair(Image(one, number), Image(two, number))
        for one, two in zip(names, [*names[1:], names[0]], strict=True)
        for number in (1, 2)
    ]
    return same + others


def write_protocol(folder):
    folder.mkdir(parents=True)

    def write(name, folds):
        people = [[Person(person, PICTURES) for person in fold] for fold in folds]
        (folder / f"people{name}.txt").write_text(people_text(people))
        (folder / f"pairs{name}.txt").write_text(pairs_text([pairs_of(fold) for fold in folds]))

    write("", FOLDS)
    write("DevTrain", VIEW1[:1])
    write("DevTest", VIEW1[1:])
    return folder


def write_picture(path, seed, number):
    """A person's picture, shifted and noisy."""
    rng, face = np.random.default_rng([seed, number]), face_like(156, 116, seed=seed)
    down, across = rng.integers(0, 5, 2)
    picture = 0.8 * face[down : down + 152, across : across + 112] + 0.03 * rng.standard_normal((152, 112))
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), np.clip(255 * (picture + rng.uniform(0, 0.2)), 0, 255).astype(np.uint8))


def write_images(folder, strangers=()):
    """Of all people; in the places of `strangers` are pictures of somebody else."""
    for seed, name in enumerate(NAMES):
        for number in range(1, PICTURES + 1):
            other = 100 * number if name in strangers else 0
            write_picture(folder / name / f"{name}_{number:04d}.png", seed + other, number)
    return folder


class Recorder:
    """A reporter that remembers what was done: titles, the iterations of each, pictures."""

    def __init__(self):
        self.lines, self.iterations, self.counts = [], {}, {}

    def say(self, line):
        self.lines.append(line)

    @contextmanager
    def learning(self, title):
        yield lambda event: self.iterations.setdefault(title, []).append(event.iteration)

    @contextmanager
    def counting(self, title):
        yield lambda done, total: self.counts.__setitem__(title, (done, total))


def models(work):
    """File -> bytes of every metric that was learned."""
    return {name: content for name, content in kept(work).items() if name.endswith(".safetensors")}


def kept(work):
    """What an experiment leaves that does not depend on the clock: file -> bytes."""
    return {
        str(path.relative_to(work)): path.read_bytes()
        for path in sorted(work.rglob("*"))
        if path.suffix in (".safetensors", ".npy") and "store" not in path.parts
    }
