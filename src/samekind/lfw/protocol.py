"""LFW's protocol, or anyone's data in its formats: what to learn from, what to test on, and where the images are.

View 1 (one split) is for choosing models, View 2 (folds, each tested by what the others teach) for reporting.
`image_rows` and `pair_rows` turn either into rows of a list of image names, such as `DiskStore.image_ids`.
"""

from __future__ import annotations

import errno
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from samekind.evaluation._checks import check_same_length
from samekind.lfw.protocol_files import Image, Pair, Pairs, People, PeopleFile, parse_pairs, parse_people

Rows = NDArray[np.intp]

_SHOWN = 5
_NAMED = re.compile(r"(?:.*[/\\])?(?P<person>[^/\\]+)_(?P<number>[0-9]+)(?:\.[A-Za-z0-9]+)?")


@dataclass(frozen=True)
class Subset:
    """People, and pairs of their images."""

    people: People
    pairs: Pairs

    @property
    def images(self) -> tuple[Image, ...]:
        """All images of the people, person by person."""
        return tuple(image for person in self.people for image in person.images)

    def more_pairs(self, *, of_a_person: int = 5, times: int = 10, seed: int = 0) -> Pairs:
        """Pairs of one person, up to `of_a_person` each, and `times` as many of two people, drawn as LFW's own are.

        People count alike, however many pictures there are of them. Pairs that are in `pairs` may be among them.
        """
        rng = np.random.default_rng(seed)
        same: list[Pair] = []
        others: list[Pair] = []
        people = [person.images for person in self.people if person.images]
        for images in people:
            of_two = [Pair(images[i], images[j]) for i in range(len(images)) for j in range(i + 1, len(images))]
            kept = rng.permutation(len(of_two))[:of_a_person]
            same += [of_two[at] for at in np.sort(kept)]
        while len(people) > 1 and len(others) < times * len(same):
            one, two = rng.choice(len(people), 2, replace=False)
            others.append(Pair(_any(people[one], rng), _any(people[two], rng)))
        return tuple(same + others)

    @property
    def names(self) -> frozenset[str]:
        """Everybody who is listed or shown in a pair."""
        shown = {image.person for pair in self.pairs for image in pair}
        return frozenset(shown.union(person.name for person in self.people))


def _any(images: Sequence[Image], rng: np.random.Generator) -> Image:
    return images[int(rng.integers(len(images)))]


@dataclass(frozen=True)
class Split:
    """What to learn from and what to test on. Nobody is in both, or it cannot be made."""

    train: Subset
    test: Subset

    def __post_init__(self) -> None:
        both = sorted(self.train.names & self.test.names)
        if both:
            raise ValueError(f"{_some(both)} in training and in test: people must be in one of them only.")


@dataclass(frozen=True)
class View2:
    """Two folds or more. Nobody is in two of them, or it cannot be made."""

    folds: tuple[Subset, ...]

    def __post_init__(self) -> None:
        if len(self.folds) < 2:
            raise ValueError(f"View 2 needs two folds at least, to learn from one and test on one; got {len(self)}.")
        counts = Counter(name for part in self.folds for name in part.names)
        twice = sorted(name for name, count in counts.items() if count > 1)
        if twice:
            raise ValueError(f"{_some(twice)} in several folds: people must be in one of them only.")

    def __len__(self) -> int:
        return len(self.folds)

    def split(self, fold: int) -> Split:
        """Fold number `fold`, from 0, to test on, and all others to learn from."""
        if not 0 <= fold < len(self):
            raise ValueError(f"fold must be from 0 to {len(self) - 1}; got {fold}.")
        others = self.folds[:fold] + self.folds[fold + 1 :]
        people = tuple(person for part in others for person in part.people)
        pairs = tuple(pair for part in others for pair in part.pairs)
        return Split(Subset(people, pairs), self.folds[fold])

    def splits(self) -> Iterator[Split]:
        """One split for each fold."""
        return map(self.split, range(len(self)))

    @property
    def pairs(self) -> Pairs:
        """The pairs of all folds, fold after fold."""
        return tuple(pair for part in self.folds for pair in part.pairs)

    @property
    def fold_numbers(self) -> NDArray[np.int64]:
        """The fold of each of `pairs`, from 0."""
        return np.repeat(np.arange(len(self)), [len(part.pairs) for part in self.folds])


def read_view1(folder: str | os.PathLike[str]) -> Split:
    """View 1 from peopleDevTrain, peopleDevTest, pairsDevTrain and pairsDevTest.txt in a folder."""
    folder = Path(folder)
    train = read_people(folder / "peopleDevTrain.txt")
    test = read_people(folder / "peopleDevTest.txt", apart_from=train)
    (learned,) = _parts(train, read_pairs(folder / "pairsDevTrain.txt", people=train), n_folds=1)
    (tested,) = _parts(test, read_pairs(folder / "pairsDevTest.txt", people=test), n_folds=1)
    return Split(learned, tested)


def read_view2(folder: str | os.PathLike[str]) -> View2:
    """View 2 from people.txt and pairs.txt in a folder."""
    folder = Path(folder)
    people = read_people(folder / "people.txt")
    return View2(_parts(people, read_pairs(folder / "pairs.txt", people=people)))


def read_people(path: str | os.PathLike[str], *, apart_from: PeopleFile | None = None) -> PeopleFile:
    """`parse_people` of a file."""
    return parse_people(_text(path), os.fspath(path), apart_from=apart_from)


def read_pairs(path: str | os.PathLike[str], *, people: PeopleFile | None = None) -> tuple[Pairs, ...]:
    """`parse_pairs` of a file."""
    return parse_pairs(_text(path), os.fspath(path), people=people)


def named_image(name: str) -> Image | None:
    """The image that a file's name tells: `Ann_0001.jpg`, in any folder, with any suffix or none."""
    match = _NAMED.fullmatch(name)
    return None if match is None else Image(match["person"], int(match["number"]))


def missing_images(images: Iterable[Image], names: Iterable[str]) -> list[Image]:
    """Those of the images that no name tells, each once."""
    named = {named_image(str(name)) for name in names}
    return [image for image in dict.fromkeys(images) if image not in named]


def image_rows(images: Iterable[Image], names: Sequence[str], labels: ArrayLike | None = None) -> Rows:
    """The place of each image in a list of file names; one that is missing, or there twice, is an error.

    `labels`, one for each name, must be the names of the people: give them where they are to be learned from.
    """
    images = list(images)
    rows = _rows_by_image(names)
    missing = [image for image in dict.fromkeys(images) if image not in rows]
    if missing:
        raise ValueError(
            f"{_some([image.file_name() for image in missing])} missing among the {len(names):,} images. "
            "Names must end like Ann_Lee/Ann_Lee_0001.jpg or Ann_Lee_0001.jpg."
        )
    twice = next((image for image in images if len(rows[image]) > 1), None)
    if twice is not None:
        raise ValueError(f"{twice} is there as {' and as '.join(str(names[row]) for row in rows[twice])}. Keep one.")
    found = np.array([rows[image][0] for image in images], dtype=np.intp)
    if labels is not None:
        _check_people(images, found, names, np.asarray(labels))
    return found


def pair_rows(pairs: Sequence[Pair], names: Sequence[str]) -> tuple[Rows, NDArray[np.bool_]]:
    """Rows (m, 2) of each pair's images in a list of file names, and same (m,): whether they show one person."""
    rows = image_rows([image for pair in pairs for image in pair], names)
    return rows.reshape(-1, 2), np.array([pair.same for pair in pairs], dtype=np.bool_)


def _rows_by_image(names: Sequence[str]) -> dict[Image, list[int]]:
    rows: dict[Image, list[int]] = {}
    for row, name in enumerate(names):
        image = named_image(str(name))
        if image is not None:
            rows.setdefault(image, []).append(row)
    return rows


def _check_people(images: Sequence[Image], rows: Rows, names: Sequence[str], labels: NDArray[np.str_]) -> None:
    check_same_length(labels, "labels", np.asarray(names), "names")
    for image, row in zip(images, rows, strict=True):
        if labels[row] != image.person:
            raise ValueError(
                f"{names[row]} has the label {str(labels[row])!r}, but the protocol says {image.person!r}."
            )


def _parts(people: PeopleFile, pairs: tuple[Pairs, ...], n_folds: int | None = None) -> tuple[Subset, ...]:
    if n_folds is not None and len(people.folds) != n_folds:
        raise ValueError(f"{people.source} has {len(people.folds)} folds, where {n_folds} is needed.")
    return tuple(Subset(*fold) for fold in zip(people.folds, pairs, strict=True))


def _text(path: str | os.PathLike[str]) -> str:
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        problem = "There is no such file of people or pairs. The protocol files of LFW keep their official names"
        raise FileNotFoundError(errno.ENOENT, problem, str(path)) from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{os.fspath(path)} is not UTF-8 text ({error}). Save it as UTF-8.") from error


def _some(names: Sequence[str]) -> str:
    """The first few and how many: `Ann, Bob and 7 more (9 in all) are`."""
    shown, more = ", ".join(names[:_SHOWN]), len(names) - _SHOWN
    if more > 0:
        return f"{shown} and {more:,} more ({len(names):,} in all) are"
    return f"{shown} is" if len(names) == 1 else f"{shown} are"
