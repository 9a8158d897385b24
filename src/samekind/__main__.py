"""`python -m samekind`, and the command `samekind`."""

import sys
import traceback


def main() -> None:
    """Run a command; a package that is missing is no answer either, so it must not end with status 1."""
    try:
        from samekind.cli import main as run
    except ImportError:
        traceback.print_exc()
        sys.exit(70)  # as every bug: `samekind.cli.status`, which may be what cannot be imported
    run()


if __name__ == "__main__":
    main()
