"""`dsh plugins new`: a working plugin of the user's own, copied from the template."""

from __future__ import annotations

import keyword
import re
import tempfile
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from dsh_core.errors import UserError
from dsh_core.plugins.discovery import installed_plugins

WORD = "hello"
"""What the template's plugin is called."""
TEMPLATE = "plugin_template"
SOURCE_TREE = "plugin-template"
NAME = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")
KEPT_DOT_NAMES = (".github", ".gitignore")
LEFT_OUT = ("__pycache__", "build", "dist")


def new_plugin(name: str, into: Path, *, taken: frozenset[str] = frozenset()) -> Path:
    """Write the plugin `name` to the folder `into`/dsh-NAME and return that.

    Args:
        name: Lower-case words joined by underscores: the plugin's name in YAML.
        into: Existing or new.
        taken: Names of plugins that are there already, beside the installed ones.

    Raises:
        UserError: A name that cannot be one or is taken; a folder that is not empty or cannot be
            written. Then nothing was written.
    """
    check_name(name, taken | frozenset(installed_plugins()))
    target = into / f"dsh-{name.replace('_', '-')}"
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise UserError("is not empty", where=str(target), remedy="Choose another with --into.")
    try:
        into.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".dsh-new-", dir=into) as scratch:
            made = Path(scratch) / target.name
            _write(template(), made, name)
            made.replace(target)
    except OSError as error:
        raise UserError(
            f"cannot be written: {error.strerror or error}", where=str(target)
        ) from error
    return target


def check_name(name: str, taken: frozenset[str]) -> None:
    """Raise `UserError` for what cannot be a plugin's name."""
    if not NAME.fullmatch(name) or keyword.iskeyword(name):
        raise UserError(
            f"{name!r} cannot be a plugin's name",
            remedy="Lower-case letters, digits and single underscores, as in word_count.",
        )
    if name in taken:
        raise UserError(f"there is a plugin {name!r} already", remedy="Choose another name.")


def template() -> Traversable:
    """Return the template's folder: in the package, or beside it in a clone."""
    packaged = files("dsh_core") / TEMPLATE
    if packaged.is_dir():
        return packaged
    return Path(__file__).resolve().parents[2] / SOURCE_TREE


def renamed(text: str, name: str) -> str:
    """Replace the template's word in each of its forms: dsh-hello, hello, Hello."""
    words = name.split("_")
    text = text.replace(f"dsh-{WORD}", f"dsh-{'-'.join(words)}")
    text = text.replace(WORD.capitalize(), "".join(word.capitalize() for word in words))
    return text.replace(WORD.upper(), name.upper()).replace(WORD, name)


def _write(source: Traversable, target: Path, name: str) -> None:
    target.mkdir()
    for entry in _entries(source):
        to = target / renamed(entry.name, name)
        if entry.is_dir():
            _write(entry, to, name)
        else:
            to.write_text(renamed(entry.read_text(encoding="utf-8"), name), encoding="utf-8")


def _entries(folder: Traversable) -> Iterator[Traversable]:
    """Yield what belongs to the template, and not what working on it left behind."""
    for entry in folder.iterdir():
        is_kept = not entry.name.startswith(".") or entry.name in KEPT_DOT_NAMES
        if is_kept and entry.name not in LEFT_OUT and not entry.name.endswith(".egg-info"):
            yield entry
