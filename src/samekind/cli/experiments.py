"""What the paper's experiments, `lfw` and `retrieval`, share: options, progress, and results as a file."""

import json as json_text
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from samekind.cli.options import FAMILIES_HELP, RunOptions, parse_families
from samekind.cli.output import Count, counting, say
from samekind.cli.progress import fit_progress, interruptible, titles_under

if TYPE_CHECKING:
    from samekind.events import Observer
    from samekind.lfw.experiment import Experiment
    from samekind.lfw.presets import ExperimentSettings

ImagesArgument = Annotated[
    Path, typer.Argument(metavar="IMAGES", help="Aligned pictures, such as IMAGES/Ann_Lee/Ann_Lee_0001.jpg.")
]
FamiliesOption = Annotated[str, typer.Option("--families", help=FAMILIES_HELP)]
WorkOption = Annotated[
    Path, typer.Option("--work", metavar="DIR", help="Folder of all results; the same command goes on with it.")
]
StoreOption = Annotated[
    Path | None,
    typer.Option("--store", metavar="DIR", help="Ready descriptors of `samekind extract`. Default: WORK/store."),
]
RegionsOption = Annotated[int | None, typer.Option("--regions", min=1, help="Of each family, instead of the preset's.")]
SeedOption = Annotated[int | None, typer.Option("--seed", min=0, help="Of all that is drawn at random.")]


class ShownProgress:
    """Progress on stderr: a bar with the time left, or, where no one watches, a line now and then."""

    def __init__(self, shown: bool) -> None:
        self.shown = shown

    def say(self, line: str) -> None:
        if self.shown:
            say(line, stderr=True)

    @contextmanager
    def learning(self, title: str) -> Iterator["Observer | None"]:
        with fit_progress(self.shown, titles_under(title), f"{title}: reading descriptors") as display:
            yield display

    @contextmanager
    def counting(self, title: str) -> Iterator[Count]:
        with counting(title, self.shown) as count:
            yield count


def write_json(path: Path, content: dict[str, Any]) -> None:
    from samekind.files import write_whole

    write_whole(path, json_text.dumps(content, indent=1, allow_nan=False) + "\n")


class Data(Protocol):
    """What there is, and where results go."""

    @property
    def images(self) -> Path: ...
    @property
    def protocol(self) -> Path: ...
    @property
    def families(self) -> str: ...
    @property
    def work(self) -> Path: ...
    @property
    def store(self) -> Path | None: ...
    @property
    def landmarks(self) -> Path | None: ...


def experiment_on(
    data: Data, settings: "ExperimentSettings", memory: str, running: RunOptions, **more: Any
) -> "Experiment":
    from samekind.images.landmarks import read_landmarks
    from samekind.lfw.experiment import Experiment

    return Experiment(
        data.images,
        data.protocol,
        data.work,
        settings,
        families=parse_families(data.families),
        store=data.store,
        landmarks=None if data.landmarks is None else read_landmarks(data.landmarks),
        memory=memory,
        n_jobs=running.jobs,
        reporter=ShownProgress(not running.quiet),
        **more,
    )


@contextmanager
def resumable(work: Path) -> Iterator[list[str]]:
    """Collects warnings, each once; says after Ctrl-C that the work can be gone on with."""
    from samekind.lfw.workplace import working_in

    said: list[str] = []
    with (
        working_in(work),
        warnings.catch_warnings(record=True) as caught,
        interruptible(f"The same command goes on with what is kept in {work}."),
    ):
        warnings.simplefilter("always", UserWarning)
        yield said
    said += dict.fromkeys(str(each.message) for each in caught)
