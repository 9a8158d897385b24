"""Galleries: codes with records, searched exactly, durable, with erasure.

    Gallery       what callers use: add, remove, replace, search, export, compact, check, reencode, doctor
    backend       what a kind of gallery does in its own way
    forms         codes as a vector and a number, ranked by ||u - q||^2 + s
    folder        galleries in a folder; the following, up to cells, is theirs
    transactions  what readers and writers do in one transaction
    database      SQLite: records, which rows exist, checksums
    layout        files of rows: headers, appending, mapping
    writing       rows into segments, and erased from them
    view          segments at one moment, as a search maps them
    checksums, verifying   of runs of rows, compared when a file is first read whole
    search        the k nearest of a view (`samekind.kernels.nearest` has the bound and its proof)
    answering     searches of a view that is steady meanwhile, with records
    compaction, checking, next_model   what maintenance does
    cells         approximate search
    postgres      galleries on a PostgreSQL server, with postgres_tables, _search, _check, and server, a connection
    recall        how much an approximate search misses, for galleries of any kind
    transfer, reencoding   to and from files, and to another model, for galleries of any kind
    chances       what a threshold means for a gallery of some size
    doctor        likely mistakes among the entries, from all pairs of codes (`pairs`)

Order of a write: rows to the files, fsync, then one commit of the database, which states that they exist. Order of an
erasure: one commit that takes rows from their records and lists them, then they are overwritten, then the list goes.
Nothing here imports a solver.
"""

from samekind.gallery.chances import FalseMatchChance
from samekind.gallery.errors import GalleryError
from samekind.gallery.gallery import Gallery
from samekind.gallery.layout import Layout
from samekind.gallery.records import Answer, Hit, Record, Removal, Size

__all__ = ["Answer", "FalseMatchChance", "Gallery", "GalleryError", "Hit", "Layout", "Record", "Removal", "Size"]
