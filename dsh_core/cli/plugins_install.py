"""`dsh plugins install` and `uninstall`: pip, in the environment that this dsh runs in."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
from collections.abc import Sequence

from dsh_core.cli.context import show
from dsh_core.cli.main import EXIT_FAILED, EXIT_OK
from dsh_core.errors import UserError
from dsh_core.plugins.discovery import CORE_DISTRIBUTION, FIRST_PARTY, Found, installed_plugins


def install(wanted: Sequence[str], *, editable: Sequence[str], upgrade: bool) -> int:
    """Install what pip understands, or first-party plugins by their names; say what is on now.

    Raises `UserError` when there is no pip.
    """
    before = installed_plugins()
    words = [f"dsh-{one.replace('_', '-')}" if one in FIRST_PARTY else one for one in wanted]
    options = ["--upgrade"] if upgrade else []
    for folder in editable:
        options += ["--editable", folder]
    if not _pip("install", *options, *words):
        return EXIT_FAILED
    after = _found_anew()
    new = [one for name, one in after.items() if _changed(before.get(name), one)]
    for one in new:
        show(f"{one.name} is on: {one.distribution} {one.version}")
    if not new:
        show("no new plugin: what is installed is what was there, or brings none")
    return EXIT_OK


def uninstall(names: Sequence[str]) -> int:
    """Uninstall the distributions of plugins. Raises `UserError` for one that is not installed."""
    found = installed_plugins()
    for name in names:
        if name not in found or found[name].distribution == CORE_DISTRIBUTION:
            known = sorted(k for k, v in found.items() if v.distribution != CORE_DISTRIBUTION)
            raise UserError(
                f"no distribution of a plugin {name!r} is installed",
                remedy=f"Installed are: {', '.join(known) or 'none'}.",
            )
    gone = {found[name].distribution for name in names}
    if not _pip("uninstall", "--yes", *sorted(gone)):
        return EXIT_FAILED
    for one in found.values():
        if one.distribution in gone:
            show(f"{one.name} is gone: {one.distribution}")
    return EXIT_OK


def _changed(before: Found | None, after: Found) -> bool:
    return before is None or (before.distribution, before.version) != (
        after.distribution,
        after.version,
    )


def _found_anew() -> dict[str, Found]:
    importlib.invalidate_caches()
    return installed_plugins()


def _pip(*arguments: str) -> bool:
    """Run pip, whose words go to standard error; return whether it succeeded."""
    if importlib.util.find_spec("pip") is None:
        raise UserError(
            "there is no pip in the environment of this dsh",
            where=sys.prefix,
            remedy=f"Use what made it, for example: uv pip install --python {sys.executable} …",
        )
    command = [sys.executable, "-m", "pip", *arguments, "--disable-pip-version-check", "--no-input"]
    return subprocess.run(command, stdout=sys.stderr).returncode == 0
