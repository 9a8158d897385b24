"""Options that several verbs share, and how their texts are read."""

import inspect
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

# The same as in `samekind.images` and `samekind.extraction`, which take long to import.
Align = Literal["none", "landmarks", "detect"]
Several = Literal["error", "largest", "central"]
OnError = Literal["skip", "fail"]

# Of --families.
FAMILIES_HELP = (
    "Kinds of descriptors: cov, slbp, or both; at another scale cov@0.5, of more of the picture cov@0.5:75x100 (width "
    "x height at that scale); slbp+r2 for a larger radius, slbp+tt after normalising the illumination."
)
LandmarksOption = Annotated[
    Path | None,
    typer.Option(
        "--landmarks",
        help="CSV of eyes and mouth, for the alignment landmarks: image, left_eye_x, left_eye_y, right_eye_x, "
        "right_eye_y, mouth_x, mouth_y.",
    ),
]
SeveralOption = Annotated[
    Several,
    typer.Option(
        "--several", help="A picture of several faces is unusable, or its largest or its most central one is taken."
    ),
]
OnErrorOption = Annotated[
    OnError, typer.Option("--on-error", help="A file that cannot be used is left out and reported, or ends the run.")
]
# The same as in `samekind.estimators.presets`.
PresetOption = Annotated[
    Literal["pictures", "faces", "paper"],
    typer.Option(
        "--preset", help="Set of settings: pictures follows the data; faces also counts mirror images; paper."
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Change a setting of the preset; may be repeated."),
]
ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="File that `samekind fit` wrote.")]
GalleryArgument = Annotated[
    str,
    typer.Argument(
        metavar="GALLERY", help="Folder that `samekind index` wrote, or postgresql://user@host/database?gallery=name."
    ),
]
LabelledImagesArgument = Annotated[
    Path, typer.Argument(metavar="IMAGES", help="A folder with a folder per label, or a CSV of file and label.")
]
MaxGroupsOption = Annotated[
    int | None, typer.Option("--max-groups", min=1, help="Regions chosen per family. Default: the preset's.")
]
ComponentsOption = Annotated[
    int | None, typer.Option("--components", min=1, help="Length of the code. Default: the preset's.")
]
MemoryOption = Annotated[str, typer.Option("--memory", help="Memory for pairs of pictures, such as 2GB.")]
JobsOption = Annotated[int | None, typer.Option("--jobs", min=1, help="Threads; all cores by default.")]
QuietOption = Annotated[bool, typer.Option("--quiet", help="No progress bars.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the results as one JSON object.")]


@dataclass(frozen=True)
class RunOptions:
    """How a verb works and prints."""

    jobs: JobsOption = None
    quiet: QuietOption = False
    json: JsonOption = False


@dataclass(frozen=True)
class ClusterOptions:
    """Who computes, where that is not this process alone."""

    scheduler: Annotated[
        str | None,
        typer.Option(
            "--scheduler",
            metavar="ADDRESS",
            help="Compute on the workers of this Dask scheduler, such as tcp://10.0.0.1:8786 (see `samekind worker`).",
        ),
    ] = None
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Compute in so many worker processes on this machine.")
    ] = None
    shared: Annotated[
        Path | None,
        typer.Option(
            "--shared", metavar="DIR", help="Folder that all machines see, for arrays on their way to workers."
        ),
    ] = None
    tls_ca: Annotated[
        Path | None, typer.Option("--tls-ca-file", help="Certificates that are trusted, for tls:// addresses.")
    ] = None
    tls_cert: Annotated[Path | None, typer.Option("--tls-cert", help="Certificate of this process.")] = None
    tls_key: Annotated[Path | None, typer.Option("--tls-key", help="Its key.")] = None

    def around(self, jobs: int | None) -> AbstractContextManager[Any]:
        """A cluster for the work of a `with` block, or nothing."""
        if self.scheduler is None and self.workers is None:
            return nullcontext()
        if self.scheduler is not None and self.workers is not None:
            raise ValueError("--scheduler names a cluster, and --workers starts one: give one of them.")
        from samekind.compute.cluster import cluster
        from samekind.compute.dask import tls

        security = tls(*(None if file is None else str(file) for file in (self.tls_ca, self.tls_cert, self.tls_key)))
        return cluster(
            self.scheduler,
            workers=self.workers,
            n_jobs=jobs,
            shared=self.shared,
            stripes=self.copies_of_stripes(),
            security=security,
        )

    def copies_of_stripes(self) -> Path | None:
        """Where workers copy what they read of a store; extractions read none."""
        return None


@dataclass(frozen=True)
class FitClusterOptions(ClusterOptions):
    """Of verbs that learn from a store."""

    stripes: Annotated[
        Path | None,
        typer.Option(
            "--stripes",
            metavar="DIR",
            help="Folder on each worker's own disk: it copies the groups that it reads of the store there, once, and "
            "later fits of the store use the copies.",
        ),
    ] = None

    def around(self, jobs: int | None) -> AbstractContextManager[Any]:
        if self.stripes is not None and self.scheduler is None and self.workers is None:
            raise ValueError("--stripes is where workers keep copies: give --scheduler or --workers as well.")
        return super().around(jobs)

    def copies_of_stripes(self) -> Path | None:
        return self.stripes


@dataclass(frozen=True)
class PictureOptions:
    """How pictures are read for a model."""

    landmarks: LandmarksOption = None
    several: SeveralOption = "error"
    on_error: OnErrorOption = "skip"


@dataclass(frozen=True)
class LearnerOptions:
    """What differs from the preset."""

    changes: SetOption = None
    max_groups: MaxGroupsOption = None
    components: ComponentsOption = None

    def settings(self) -> dict[str, int]:
        """Those that have an option of their own and were given by it; none may be in --set as well."""
        options = {"max_groups": ("--max-groups", self.max_groups), "n_components": ("--components", self.components)}
        changed = {change.partition("=")[0].strip() for change in self.changes or ()}
        for name, (option, value) in options.items():
            if value is not None and name in changed:
                raise ValueError(f"{option} and --set {name} say the same thing: give one of them.")
        return {name: value for name, (_, value) in options.items() if value is not None}


def with_groups(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb as typer can read it: each field of a parameter that is a dataclass is an argument or option."""
    parameters = inspect.signature(verb, eval_str=True).parameters
    kinds = {name: parameter.annotation for name, parameter in parameters.items()}
    groups: dict[str, Any] = {name: kind for name, kind in kinds.items() if is_dataclass(kind)}
    flat: list[inspect.Parameter] = []
    for name, parameter in parameters.items():
        own = inspect.signature(groups[name], eval_str=True).parameters.values() if name in groups else [parameter]
        flat += [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own]

    @wraps(verb)
    def called(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
        verb(**given)

    called.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    return called


def parse_size(text: str) -> tuple[int, int]:
    """Width and height of "110x150"."""
    match = re.fullmatch(r"\s*(\d+)\s*[xX]\s*(\d+)\s*", text)
    if not match:
        raise ValueError(f"--size {text!r} is no size: give width x height in pixels, such as 110x150.")
    return int(match[1]), int(match[2])


def parse_families(text: str) -> list[str]:
    """Names from "cov,slbp"; whether there are such families is for others to say."""
    names = [name.strip() for name in text.split(",")]
    if not all(names) or len(set(names)) < len(names):
        raise ValueError(f"--families {text!r}: give names separated by commas, each once, such as cov,slbp.")
    return names
