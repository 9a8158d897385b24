"""The people of the experiment: for training, as queries, and as distractors.

The paper trains on people of LFW's list of names. Its queries are 60 others (Qry60), searched among each other and
injected into the pictures of the training people (LFWext). Here the training people are View 1's; its test people with
enough pictures are queries, and everybody else is a distractor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from samekind.lfw.protocol import Split
from samekind.lfw.protocol_files import Image


@dataclass(frozen=True)
class Cast:
    """Training images, query images, and images that are mixed in as distractors."""

    train: tuple[Image, ...]
    queries: tuple[Image, ...]
    distractors: tuple[Image, ...]

    @classmethod
    def from_split(cls, split: Split, least: int, most: int) -> Cast:
        """Test people with `least` images or more are queries, with their first `most` images.

        Further images of theirs are left out: they would be relevant, but are no queries.
        """
        asked = [person for person in split.test.people if person.n_images >= least]
        queries = tuple(image for person in asked for image in person.images[:most])
        if not queries:
            raise ValueError(
                f"None of the {len(split.test.people):,} test people has {least} images or more, so that there is "
                "nobody to look for: ask for fewer with --query-images."
            )
        others = tuple(image for person in split.test.people if person.n_images < least for image in person.images)
        return cls(split.train.images, queries, split.train.images + others)

    @property
    def images(self) -> tuple[Image, ...]:
        """All, each once."""
        return tuple(dict.fromkeys(self.train + self.queries + self.distractors))


def people_in(images: Sequence[Image]) -> int:
    return len({image.person for image in images})
