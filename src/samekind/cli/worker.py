"""`samekind worker`"""

from typing import Annotated

import typer

from samekind.cli.output import say


def worker(
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="Of the scheduler, such as tcp://10.0.0.1:8786.")],
    *,
    jobs: Annotated[int | None, typer.Option("--jobs", min=1, help="Threads; all cores by default.")] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="A name of its own. Default: the machine's, and the process's number.")
    ] = None,
    tls_ca: Annotated[str | None, typer.Option("--tls-ca-file", help="Certificates that are trusted.")] = None,
    tls_cert: Annotated[str | None, typer.Option("--tls-cert", help="This worker's certificate.")] = None,
    tls_key: Annotated[str | None, typer.Option("--tls-key", help="Its key.")] = None,
    give_up: Annotated[
        float, typer.Option("--give-up", min=0, help="Seconds to wait for a scheduler that is gone.")
    ] = 600.0,
) -> None:
    """Work for a cluster: fits and extractions whose --scheduler is ADDRESS.

    Stores and pictures must be at the same paths as for whoever starts the fit. When the scheduler is restarted, the
    worker connects again, and still has what it computed. Ctrl-C ends it.

    Example: samekind worker tcp://10.0.0.1:8786

    Example: samekind worker tls://10.0.0.1:8786 --tls-ca-file ca.pem --tls-cert worker.pem --tls-key worker.key
    """
    from samekind.compute.dask import run_worker, tls

    run_worker(
        address,
        name=name,
        n_threads=jobs,
        security=tls(tls_ca, tls_cert, tls_key),
        give_up=give_up,
        say=lambda text: say(text, stderr=True),
    )
