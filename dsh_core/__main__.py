"""`python -m dsh_core` and the console script `dsh`.

In a folder of others only the console script and `python -I -m dsh_core` are safe. A plain
`python -m` searches the working directory first: its `dsh_core`, or a `typing.py` that Python needs
to find ours, has run before a line of this file.
"""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line and return its exit code."""
    from dsh_core.cli.leaving import Leaving
    from dsh_core.cli.main import run

    with Leaving() as leaving:
        leaving.code = run(sys.argv[1:])
    return leaving.code


if __name__ == "__main__":
    if not sys.flags.safe_path:
        sys.path.pop(0)  # the working directory: from here on nothing of it is imported
    sys.exit(main())
