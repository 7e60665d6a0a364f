"""`make pluggy16`: the tests of hooks and plugins on the oldest pluggy that dsh-core allows.

Makes `.venv-pluggy16`, or takes the one that is there, and returns pytest's exit code. Arguments go
to pytest.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv-pluggy16"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / ".installed"
REQUIREMENTS = ROOT / "tests" / "requirements.txt"
TESTS = ("test_hooks_*.py", "test_plugins_*.py", "test_every_hook*.py")


def main() -> int:
    wanted = oldest()
    if not is_fresh():
        print(f"making {VENV.name} with {wanted}", flush=True)
        make(wanted)
    subprocess.run([str(PYTHON), "-c", "import pluggy; print('pluggy', pluggy.__version__)"])
    tests = [str(path) for pattern in TESTS for path in sorted((ROOT / "tests").glob(pattern))]
    return subprocess.run([str(PYTHON), "-m", "pytest", *tests, *sys.argv[1:]], cwd=ROOT).returncode


def oldest() -> str:
    """Read the lower bound from the project: `pluggy>=1.6,<2` gives `pluggy==1.6`."""
    data = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for requirement in data["project"]["dependencies"]:
        if bound := re.match(r"pluggy\s*>=\s*([\d.]+)", requirement):
            return f"pluggy=={bound[1]}"
    raise SystemExit("pyproject.toml gives no lower bound for pluggy")


def is_fresh() -> bool:
    """Whether the environment was made after the last change of what it is made from."""
    projects = [ROOT / "pyproject.toml", *ROOT.glob("dsh_plugins/*/pyproject.toml"), REQUIREMENTS]
    changed = max(path.stat().st_mtime for path in projects)
    return STAMP.exists() and STAMP.stat().st_mtime >= changed


def make(wanted: str) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=True)
    pip = [str(PYTHON), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    subprocess.run([*pip, "-r", str(REQUIREMENTS), wanted], cwd=ROOT, check=True)
    STAMP.touch()


if __name__ == "__main__":
    sys.exit(main())
