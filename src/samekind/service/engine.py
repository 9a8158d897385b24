"""All that the service does, without HTTP; may be called from several threads."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from samekind._version import __version__
from samekind.gallery.errors import GalleryError
from samekind.images.align import Aligned
from samekind.model.explanation import explain_features
from samekind.service.answers import search_answer, threshold_of, verify_answer
from samekind.service.distribution import pair_distribution
from samekind.service.errors import Refusal, ending
from samekind.service.pictures import THUMBNAIL, Face, Picture, Pictures, read_picture

if TYPE_CHECKING:
    from samekind.gallery import Gallery
    from samekind.model.metric import Metric

MOST_TIMINGS = 500  # of each kind, the last ones
MOST_EXAMINED, MOST_FINDINGS = 20_000, 30  # entries, and findings of each kind, of the doctor


class Chosen(NamedTuple):
    """A face of a picture that was sent."""

    picture: str
    face: int = 0


class Engine:
    """A model, a gallery or none, and the pictures of the last while."""

    def __init__(
        self,
        metric: Metric,
        gallery: Gallery | None = None,
        *,
        max_pixels: int = 25_000_000,
        picture_bytes: int = 64_000_000,
    ) -> None:
        needs_points = metric.extractor is not None and metric.extractor.get("alignment") == "landmarks"
        self.metric, self.gallery = metric, gallery
        self.ending = False  # what takes long looks at it
        self.encoder = metric.encoder(landmarks={} if needs_points else None)
        self.max_pixels = max_pixels
        self.pictures = Pictures(picture_bytes)
        self.distribution = pair_distribution(metric, gallery)
        self._rectangles = self.encoder.extractor.rectangles()
        self._timings: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=MOST_TIMINGS))
        self._lock = threading.Lock()
        self._warm_up()

    def add_picture(self, data: bytes, points: Sequence[float] | None = None) -> dict[str, Any]:
        """Read an upload and keep it for the other calls."""
        with self._timed("picture"):
            picture = read_picture(data, self.encoder, self.max_pixels, points)
        return {"picture": self.pictures.keep(picture), **describe_picture(picture)}

    def crop(self, chosen: Chosen) -> bytes:
        """What the model sees of a face, as a PNG."""
        return self._face(chosen).png()

    def verify(self, a: Chosen, b: Chosen, *, far: float | None = None, prior: float = 0.5) -> dict[str, Any]:
        """The answer of `samekind verify`."""
        with self._timed("verify"):
            first, second = self._face(a), self._face(b)
            threshold = self._threshold(far)
            distance = float(self.metric.code_distance(first.code, second.code)[0])
            return verify_answer(self.metric, distance, threshold, prior)

    def explain(self, a: Chosen, b: Chosen, *, far: float | None = None) -> dict[str, Any]:
        """What each region adds to the distance, and the size of the crops that regions are measured in."""
        with self._timed("explain"):
            features = [self.encoder.describe(self._face(each).aligned) for each in (a, b)]
            threshold = self._threshold(far)
            made = explain_features(self.metric, features[0], features[1], threshold, self._rectangles)
            frame = self.encoder.extractor.frame
            crop = {"width": frame.shown[0], "height": frame.shown[1], "margin": list(frame.margin)}
            return {**made.to_json(), "crop": crop}

    def search(
        self,
        chosen: Chosen,
        *,
        k: int = 10,
        labels: list[str] | None = None,
        far: float | None = None,
        prior: float = 0.5,
    ) -> dict[str, Any]:
        """The answer of `samekind search`."""
        gallery = self._needed_gallery()
        with self._timed("search"):
            face, threshold = self._face(chosen), self._threshold(far)
            answer = gallery.search(face.code, k, label=labels, n_jobs=1)
            found = search_answer(answer, gallery.size(labels), self.metric, threshold, prior)
        return _without_sources(found)

    def add(
        self, chosen: Chosen, *, label: str | None = None, name: str | None = None, note: str | None = None
    ) -> dict[str, Any]:
        """A new entry of the gallery, with a thumbnail."""
        gallery = self._needed_gallery()
        with self._timed("add"):
            face = self._face(chosen)
            thumbnail = face.png(THUMBNAIL)
            ids = gallery.add(face.code, label=label, name=name, note=note, thumbnails=[thumbnail], model=self.metric)
        return self.entry(int(ids[0]))

    def remove(self, id: int) -> dict[str, Any]:
        """Erase an entry; says what was done."""
        gallery = self._needed_gallery()
        self.entry(id)
        with self._timed("remove"):
            removal = gallery.remove(id)
        return {
            "ids": list(removal.ids),
            "rows": removal.rows,
            "journal": removal.journal,
            "in_words": removal.describe(),
        }

    def relabel(self, ids: Sequence[int], label: str) -> dict[str, Any]:
        """Another label for some entries."""
        gallery = self._needed_gallery()
        for id in ids:
            self.entry(id)
        with self._timed("relabel"):
            for id in ids:
                gallery.replace(id, label=label)
        return {"ids": list(ids), "label": label}

    def rename(self, old: str, new: str) -> dict[str, Any]:
        """Another label for all entries of a label."""
        ids = [record.id for record in self._needed_gallery().find(label=old)]
        if not ids:
            raise Refusal(404, "no_such_label", "No entry has this label.")
        return self.relabel(ids, new)

    def doctor(self) -> dict[str, Any]:
        """The findings of `samekind gallery doctor`; ends early when the service does."""
        gallery = self._needed_gallery()
        n = len(gallery)
        if n > MOST_EXAMINED:
            raise Refusal(
                422,
                "too_many_entries",
                f"{n:,} entries take long to compare with each other, and at most {MOST_EXAMINED:,} are compared here: "
                "run `samekind gallery doctor`.",
            )
        with self._timed("doctor"):
            found = gallery.doctor(n_jobs=1, most=MOST_FINDINGS, progress=self._go_on).to_json()
        return _without_sources(found)

    def _go_on(self, done: int, total: int) -> None:
        if self.ending:
            raise ending()

    def entry(self, id: int) -> dict[str, Any]:
        try:
            record = self._needed_gallery().record(id)
        except GalleryError as error:
            raise Refusal(404, "no_such_entry", f"There is no entry {id}.") from error
        return _without_sources(record.to_json())

    def thumbnail(self, id: int) -> bytes:
        picture = self._needed_gallery().thumbnail(id)
        if picture is None:
            raise Refusal(404, "no_thumbnail", f"There is no thumbnail of entry {id}.")
        return picture

    def info(self) -> dict[str, Any]:
        """The model, the gallery, and how long calls took."""
        metric, gallery = self.metric, self.gallery
        extractor = self.encoder.extractor
        return {
            "samekind": __version__,
            "model": {
                "n_components": metric.n_components,
                "n_regions": len(metric.groups),
                "alignment": extractor.alignment,
                "crop": [extractor.frame.width, extractor.frame.height],
                "mirror": metric.mirror,
                "similarity": metric.similarity is not None,
                "threshold": metric.threshold,
                "calibration": [] if metric.calibration is None else metric.calibration.describe(),
            },
            "gallery": None
            if gallery is None
            else {"name": gallery.name, "entries": len(gallery), "labels": self._n_labels(gallery)},
            "distribution": self.distribution,
            "timings": self.timings(),
        }

    def timings(self) -> dict[str, dict[str, float]]:
        """Milliseconds of the last calls of each kind: median and 95th percentile."""
        with self._lock:
            kept = {kind: np.array(seconds) for kind, seconds in self._timings.items()}
        return {
            kind: {
                "n": len(seconds),
                "median": round(1000 * float(np.median(seconds)), 2),
                "p95": round(1000 * float(np.quantile(seconds, 0.95)), 2),
            }
            for kind, seconds in kept.items()
        }

    def close(self) -> None:
        if self.gallery is not None:
            self.gallery.close()

    def _n_labels(self, gallery: Gallery) -> int:
        return sum(label is not None for label in gallery.labels())

    def _face(self, chosen: Chosen) -> Face:
        return self.pictures.get(chosen.picture).face(chosen.face)

    def _threshold(self, far: float | None) -> float | None:
        try:
            return threshold_of(self.metric, far)
        except ValueError as error:
            raise Refusal(422, "no_such_rate", str(error)) from error

    def _needed_gallery(self) -> Gallery:
        if self.gallery is None:
            raise Refusal(
                409, "no_gallery", "No gallery was opened: start `samekind serve GALLERY` to search and to add entries."
            )
        return self.gallery

    @contextmanager
    def _timed(self, kind: str) -> Iterator[None]:
        start = perf_counter()
        yield
        with self._lock:
            self._timings[kind].append(perf_counter() - start)

    def _warm_up(self) -> None:
        """Compiled functions are loaded, and files of the gallery read, before anybody waits for them."""
        width, height = self.encoder.extractor.frame.shown
        blank = Aligned(np.random.default_rng(0).random((height, width), dtype=np.float32))
        code = self.encoder.codes([self.encoder.describe(blank)])
        if self.gallery is not None and len(self.gallery):
            self.gallery.search(code[0], 1, n_jobs=1)


def describe_picture(picture: Picture) -> dict[str, Any]:
    notes = list(dict.fromkeys(note for face in picture.faces for note in face.aligned.notes))
    return {"width": picture.width, "height": picture.height, "faces": len(picture.faces), "notes": notes}


def _without_sources(content: dict[str, Any]) -> dict[str, Any]:
    """The same without the paths of records: those of this machine are nobody's business."""

    def cleaned(value: Any) -> Any:
        if isinstance(value, dict):
            return _without_sources(value)
        return [cleaned(each) for each in value] if isinstance(value, list) else value

    return {name: cleaned(value) for name, value in content.items() if name != "source"}
