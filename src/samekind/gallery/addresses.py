"""Where galleries are: folders, or `postgresql://` addresses."""

from __future__ import annotations

import os

Address = str | os.PathLike[str]

SERVERS = ("postgresql://", "postgres://")


def is_server(path: Address) -> bool:
    return isinstance(path, str) and path.startswith(SERVERS)


def shown_address(path: Address) -> str:
    """An address without a password."""
    if not is_server(path):
        return str(path)
    from samekind.gallery.server import parsed

    return parsed(str(path))[2]
