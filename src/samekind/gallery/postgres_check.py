"""`samekind gallery check` of a gallery on a PostgreSQL server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from samekind.gallery.backend import Progress
from samekind.gallery.checking import CheckReport
from samekind.gallery.errors import GalleryError
from samekind.gallery.server import Server

if TYPE_CHECKING:
    from samekind.gallery.postgres import PostgresGallery


def check(gallery: PostgresGallery, server: Server, repair: bool, progress: Progress) -> CheckReport:
    """Read all rows (the server compares its checksums, where it has them) and compare records with codes."""
    problems, n_rows = gallery.problems(), 0
    models = [row[0] for row in server.all("SELECT model FROM models ORDER BY model")]
    in_use = gallery._model_in_use()
    for done, model in enumerate(models):
        try:
            width = gallery._model(model)[0].width
            count, wrong = server.one(
                f"SELECT count(*), count(*) FILTER (WHERE vector_dims(vector) != %s) FROM codes_{model}", (width,)
            )
        except GalleryError as error:
            problems.append(str(error))
            continue
        n_rows += count
        if wrong:
            problems.append(f"{wrong:,} codes of model {model} have another length than {width}.")
        progress(done + 1, len(models))
    if in_use in models:
        bare = server.one(
            f"SELECT count(*) FROM records r WHERE NOT EXISTS (SELECT 1 FROM codes_{in_use} c WHERE c.id = r.id)"
        )[0]
        if bare:
            problems.append(f"{bare:,} records have no code.")
    return CheckReport(tuple(problems), _reindexed(server) if repair else (), len(gallery), n_rows)


def _reindexed(server: Server) -> tuple[str, ...]:
    """Indexes that the server does not use, because making them was interrupted, made again."""
    rows = server.all(
        "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n "
        "ON n.oid = c.relnamespace WHERE n.nspname = %s AND NOT i.indisvalid",
        (server.schema,),
    )
    for (name,) in rows:
        server.run_alone(f'REINDEX INDEX "{name}"')
    return tuple(f"The index {name} was not valid. It was made again." for (name,) in rows)
