"""The text of LFW's protocol files: people and pairs of images, in one fold (View 1) or several (View 2).

People: `name, number of images` on a line each, under a line with their count; a file with several folds tells the
number of folds first. Pairs: `name, image, image` of one person each, then as many `name, image, name, image` of two
people, fold after fold, under one line with the number of pairs of a kind, or the number of folds and that number.
Columns stand apart by tabs, or by spaces in a line without tabs. Images of a person are numbered from 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Image(NamedTuple):
    """One image of a person; its text is `Ann_Lee_0001`."""

    person: str
    number: int

    def __str__(self) -> str:
        return f"{self.person}_{self.number:04d}"

    def file_name(self, suffix: str = ".jpg") -> str:
        """`Ann_Lee/Ann_Lee_0001.jpg`, as LFW's folders have it."""
        return f"{self.person}/{self}{suffix}"


class Pair(NamedTuple):
    """Two images, of one person or of two."""

    first: Image
    second: Image

    @property
    def same(self) -> bool:
        return self.first.person == self.second.person


class Person(NamedTuple):
    """A person with images 1 to `n_images`."""

    name: str
    n_images: int

    @property
    def images(self) -> tuple[Image, ...]:
        return tuple(Image(self.name, number) for number in range(1, self.n_images + 1))


People = tuple[Person, ...]
Pairs = tuple[Pair, ...]


@dataclass(frozen=True)
class PeopleFile:
    """The folds of a file of people, and the line of each name."""

    source: str
    folds: tuple[People, ...]
    lines: Mapping[str, int] = field(repr=False)

    def place(self, name: str) -> str:
        return f"{self.source}, line {self.lines[name]}"


def parse_people(text: str, source: str = "people", *, apart_from: PeopleFile | None = None) -> PeopleFile:
    """The folds of people in `text`; nobody may be listed twice, nor in the file that this is `apart_from`."""
    lines = _Lines(text, source)
    n_folds = lines.take("the number of folds", 1).number(0, "the number of folds") if lines.widths(2) == [1, 1] else 1
    places: dict[str, int] = {}
    folds = tuple(_people_of_fold(lines, fold, places, apart_from) for fold in range(1, n_folds + 1))
    lines.finish()
    return PeopleFile(source, folds, places)


def parse_pairs(text: str, source: str = "pairs", *, people: PeopleFile | None = None) -> tuple[Pairs, ...]:
    """The folds of pairs in `text`; with `people` given, a fold's pairs show images of that fold's people only."""
    lines = _Lines(text, source)
    needed = "the number of pairs of a kind, or the number of folds and of pairs of a kind in each,"
    header = lines.take(needed, 1, 2)
    n_each = header.number(-1, "the number of pairs of a kind")
    n_folds = header.number(0, "the number of folds") if len(header.fields) == 2 else 1
    if people is not None and n_folds != len(people.folds):
        raise header.error(f"{n_folds} fold(s) of pairs, but {people.source} has {len(people.folds)} of people")
    folds = tuple(_pairs_of_fold(lines, fold, n_each, people) for fold in range(1, n_folds + 1))
    lines.finish()
    return folds


def people_text(folds: Iterable[Sequence[Person]]) -> str:
    """What `parse_people` reads as these folds."""
    texts = [f"{len(fold)}\n" + "".join(f"{name}\t{n_images}\n" for name, n_images in fold) for fold in folds]
    return "".join(texts) if len(texts) == 1 else f"{len(texts)}\n" + "".join(texts)


def pairs_text(folds: Iterable[Sequence[Pair]]) -> str:
    """What `parse_pairs` reads as these folds: as many pairs of each kind in every one, the same pairs first."""
    folds = list(folds)
    counts = {len(fold) / 2 for fold in folds} | {sum(pair.same for pair in fold) for fold in folds}
    if len(counts) != 1 or 0 in counts:
        raise ValueError("Every fold must have the same number of pairs of one person and of pairs of two, not 0.")
    header = f"{len(folds[0]) // 2}\n" if len(folds) == 1 else f"{len(folds)}\t{len(folds[0]) // 2}\n"
    return header + "".join(_pair_line(pair) for fold in folds for pair in sorted(fold, key=lambda pair: not pair.same))


def _pair_line(pair: Pair) -> str:
    (person, number), second = pair
    return "\t".join(map(str, [person, number, *(second[1:] if pair.same else second)])) + "\n"


@dataclass(frozen=True)
class _Line:
    source: str
    at: int
    fields: list[str]

    def error(self, problem: str) -> ValueError:
        return ValueError(f"{self.source}, line {self.at}: {problem}.")

    def number(self, column: int, what: str) -> int:
        """The number in a column, 1 or more."""
        text = self.fields[column]
        if not re.fullmatch(r"[+-]?[0-9]+", text):
            raise self.error(f"{text!r} where {what} is needed, a whole number")
        if int(text) < 1:
            raise self.error(f"{text} where {what} is needed, which is 1 or more")
        return int(text)

    def name(self, column: int) -> str:
        if not self.fields[column]:
            raise self.error("a name is empty")
        return self.fields[column]

    def image(self, person: int, number: int) -> Image:
        return Image(self.name(person), self.number(number, "the number of an image"))


class _Lines:
    """The lines of a file that are not blank, taken one after another."""

    def __init__(self, text: str, source: str) -> None:
        numbered = enumerate(text.splitlines(), start=1)
        self._lines = [_Line(source, at, _fields(line)) for at, line in numbered if line.strip()]
        self._source = source
        self._next = 0

    def widths(self, n_lines: int) -> list[int]:
        """Numbers of columns of the lines to come."""
        return [len(line.fields) for line in self._lines[self._next : self._next + n_lines]]

    def take(self, needed: str, *widths: int) -> _Line:
        """The next line, which must be there, with one of these numbers of columns."""
        if self._next == len(self._lines):
            last = f"ends after line {self._lines[-1].at}" if self._lines else "is empty"
            raise ValueError(f"{self._source} {last}, where {needed} is needed: it is cut short, or a count is wrong.")
        line = self._lines[self._next]
        if len(line.fields) not in widths:
            found = f"{len(line.fields)} column(s), {' '.join(line.fields)!r}"
            columns = " or ".join(map(str, widths))
            raise line.error(f"{found}, where {needed} is needed, {columns} column(s)")
        self._next += 1
        return line

    def finish(self) -> None:
        if self._next < len(self._lines):
            line = self._lines[self._next]
            raise line.error(f"{' '.join(line.fields)!r} stands after all that the counts of this file announce")


def _fields(line: str) -> list[str]:
    return [part.strip() for part in line.strip().split("\t")] if "\t" in line.strip() else line.split()


def _people_of_fold(lines: _Lines, fold: int, places: dict[str, int], apart_from: PeopleFile | None) -> People:
    """One fold's people; their lines are added to `places`."""
    header = lines.take(f"the number of people of fold {fold}", 1)
    count = header.number(0, f"the number of people of fold {fold}")
    found = []
    for rank in range(1, count + 1):
        line = lines.take(f"person {rank} of the {count} that line {header.at} announces", 2)
        person = Person(line.name(0), line.number(1, "the number of images"))
        if person.name in places:
            raise line.error(f"{person.name} is in line {places[person.name]} already, and nobody may be there twice")
        if apart_from is not None and person.name in apart_from.lines:
            raise line.error(f"{person.name} is in {apart_from.place(person.name)}, too, and nobody may be in both")
        places[person.name] = line.at
        found.append(person)
    return tuple(found)


def _pairs_of_fold(lines: _Lines, fold: int, n_each: int, people: PeopleFile | None) -> Pairs:
    members = None if people is None else dict(people.folds[fold - 1])
    found = []
    for kind, columns in (("same", 3), ("different", 4)):
        for rank in range(1, n_each + 1):
            line = lines.take(f"{kind} pair {rank} of the {n_each} of fold {fold}", columns)
            pair = _pair(line)
            if people is not None and members is not None:
                _check_members(line, pair, fold, members, people)
            found.append(pair)
    return tuple(found)


def _pair(line: _Line) -> Pair:
    different = len(line.fields) == 4
    pair = Pair(line.image(0, 1), line.image(2, 3) if different else line.image(0, 2))
    if different and pair.same:
        raise line.error(f"{pair.first.person} twice where two different people are needed")
    if pair.first == pair.second:
        raise line.error(f"{pair.first} is paired with itself")
    return pair


def _check_members(line: _Line, pair: Pair, fold: int, members: Mapping[str, int], people: PeopleFile) -> None:
    for image in pair:
        if image.person not in people.lines:
            raise line.error(f"{image.person} is not in {people.source}")
        if image.person not in members:
            raise line.error(f"{image.person} is not of fold {fold}, but of another ({people.place(image.person)})")
        if image.number > members[image.person]:
            count = members[image.person]
            raise line.error(f"{image} does not exist: {people.place(image.person)} gives that person {count} image(s)")
