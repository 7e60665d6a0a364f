"""`dsh plugins install` and `uninstall` are pip in the environment of this dsh."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from program import Shell

SOURCE = "from dsh_core import hookimpl\n@hookimpl\nasync def agent_turn_start(): ...\n"


def wheel(folder: Path, name: str = "dsh-tiny", version: str = "1.0") -> Path:
    """Write a wheel with one plugin, as a build backend does."""
    package, plugin = name.replace("-", "_"), name.removeprefix("dsh-")
    info = f"{package}-{version}.dist-info"
    files = {
        f"{package}.py": SOURCE,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[dsh]\n{plugin} = {package}\n",
    }
    record = "".join(f"{path},{_digest(text)},{len(text)}\n" for path, text in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n"
    path = folder / f"{package}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
    return path


def _digest(text: str) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
    return f"sha256={digest.decode().rstrip('=')}"


class Environment:
    """A new environment with pip, in which this dsh can be imported."""

    def __init__(self, dsh: Shell):
        self.dsh = dsh
        self.folder = dsh.work.parent / "venv"
        subprocess.run([sys.executable, "-m", "venv", str(self.folder)], check=True)
        self.python = self.folder / "bin" / "python"
        (site,) = self.folder.glob("lib/*/site-packages")
        ours = sysconfig.get_path("purelib")
        (site / "ours.pth").write_text(f"import site; site.addsitedir({ours!r})\n")

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.python), "-P", "-m", "dsh_core", *arguments],
            cwd=self.dsh.work,
            env={**self.dsh.environment(), "PIP_NO_INDEX": "1", "PYTHONWARNINGS": "default"},
            capture_output=True,
            text=True,
        )

    def names(self) -> set[str]:
        rows = json.loads(self("plugins", "--json").stdout)
        return {row["name"] for row in rows if row["state"] == "on"}


@pytest.fixture
def environment(dsh: Shell) -> Environment:
    return Environment(dsh)


def test_a_plugin_comes_and_goes(environment: Environment) -> None:
    path = wheel(environment.dsh.work)

    came = environment("plugins", "install", str(path))
    there = environment.names()
    again = environment("plugins", "install", str(path))
    newer = environment("plugins", "install", str(wheel(environment.dsh.work, version="2.0")))
    went = environment("plugins", "uninstall", "tiny")

    assert came.returncode == 0, came.stderr
    assert came.stdout == "tiny is on: dsh-tiny 1.0\n"
    assert "tiny" in there
    assert again.stdout.startswith("no new plugin")
    assert newer.stdout == "tiny is on: dsh-tiny 2.0\n"
    assert went.stdout == "tiny is gone: dsh-tiny\n"
    assert "tiny" not in environment.names()


def test_what_pip_refuses_is_a_failure_in_its_words(environment: Environment) -> None:
    done = environment("plugins", "install", "no-such-distribution-anywhere")

    assert (done.returncode, done.stdout) == (1, "")
    assert "no-such-distribution-anywhere" in done.stderr


@pytest.mark.parametrize("name", ["nobody", "retry"])
def test_what_is_no_distribution_is_not_uninstalled(dsh: Shell, name: str) -> None:
    done = dsh("plugins", "uninstall", name)

    assert (done.returncode, f"no distribution of a plugin '{name}'" in done.stderr) == (2, True)


def test_nothing_to_install_is_said(dsh: Shell) -> None:
    done = dsh("plugins", "install")

    assert (done.returncode, "what to install?" in done.stderr) == (2, True)
