"""`samekind demo`"""

import os
import sys
from pathlib import Path
from shutil import which
from typing import Annotated

import typer

from samekind.cli.options import JobsOption, QuietOption
from samekind.cli.output import Console, say_table


def demo(
    out: Annotated[
        Path, typer.Option("--out", help="Folder for the model and the report; made if it is not there.")
    ] = Path("samekind-demo"),
    jobs: JobsOption = None,
    quiet: QuietOption = False,
    even: Annotated[bool, typer.Option("--even", help="Leave the digits as they are, evenly lit.")] = False,
) -> None:
    """Learn from some handwritten digits what "the same digit" means, and try it on digits never seen.

    Writes scikit-learn's digits as pictures, enlarged and unevenly lit as a careless photograph shows them; extracts
    covariance and soft-LBP descriptors of many regions into a store; lets samekind choose a few regions and learn a
    short code; and compares it with Euclidean distance, PCA, LDA and NCA on the same descriptors: can two pictures of
    digits not in the training set be recognised as the same (verification), and found (retrieval)? Needs no network.
    Leaves pictures, store, model.safetensors, digits.gallery and report.html behind, for the other commands to be tried
    on: `samekind serve --demo` opens a page with all of it.

    Example: samekind demo

    Example: samekind demo --out elsewhere --even
    """
    from samekind.demo.gallery import write_gallery
    from samekind.demo.report import write_demo_report
    from samekind.demo.study import run_study

    console = Console()
    out.mkdir(parents=True, exist_ok=True)
    study = run_study(out, jobs, 0 if quiet else 1, lambda line: console.print(line, highlight=False), evenly_lit=even)
    say_table(study.title, study.table())
    model, report = out / "model.safetensors", out / "report.html"
    study.metric.save(model)
    write_demo_report(report, study)
    gallery = write_gallery(out, study)
    one, other = study.examples
    command = _command()
    places = {"Store": study.store.path, "Model": model, "Gallery": gallery, "Report": report}
    lines = {
        **places,
        "Try": f"{command} verify {model} {one} {other} --explain {out / 'why.png'}",
        "Open": f"{command} serve {gallery}",
    }
    for name, line in lines.items():
        console.print(f"{name + ':':<8} {line}", highlight=False, markup=False, soft_wrap=True)


def _command() -> str:
    """What runs samekind from here: its name, or where the environment of this Python has it."""
    beside = Path(sys.executable).parent / "samekind"
    return os.path.relpath(beside) if which("samekind") is None and beside.exists() else "samekind"
