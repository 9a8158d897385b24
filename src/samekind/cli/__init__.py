"""The command line: one file per verb."""

from samekind.cli.main import main

__all__ = ["main"]
