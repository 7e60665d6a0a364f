"""`python -m dsh_core` and the console script `dsh`."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line and return its exit code."""
    from dsh_core.cli.main import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.path.pop(0)  # `python -m` puts the working directory there: a repository's code would run
    sys.exit(main())
