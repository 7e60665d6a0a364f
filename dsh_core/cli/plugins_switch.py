"""`dsh plugins enable` and `disable`: a line of YAML, with everything around it left as it is."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from dsh_core.cli.context import CliContext, say_note, show
from dsh_core.config.files import PROJECT_FILE, USER_FILE, find_project_file, user_dir
from dsh_core.config.yaml import read_document
from dsh_core.errors import ConfigError, UserError

WAS = "was: "
"""Begins the comment that keeps the settings of a plugin that is switched off."""
WIDTH = 4096
"""No line is broken: the user's lines stay as long as they are."""


def switch(name: str, context: CliContext, *, on: bool, user: bool) -> None:
    """Write in a configuration file that a plugin is on or off, and say so.

    The file is that of `-c`, the user's with `user`, else the project's, which is made where there
    is none. A file that the user trusted stays trusted. Raises `UserError` for a plugin that is
    unknown or a file that cannot be written.
    """
    _check_known(name, context)
    path = _file(context, user=user)
    before = _read(path)
    after = switched(before.decode("utf-8"), name, on=on).encode("utf-8")
    state = "on" if on else "off"
    if after == before:
        show(f"{name} is {state} in {path} already")
        return
    read_document(after, str(path))  # raises for what dsh could not read again
    _write(path, after)
    if path.name == PROJECT_FILE and (not before or context.trust.is_trusted(path, before)):
        context.trust.trust(path, after)
    show(f"{name} is {state}: {path}")
    context.forget_config()
    untrusted = context.config().untrusted_file
    if untrusted is not None and untrusted.samefile(path):
        say_note(f"{path} is not trusted, and so this does not count: `dsh trust`")


def switched(text: str, name: str, *, on: bool) -> str:
    """Return YAML in which a plugin is on or off.

    Settings that switching off takes away are kept in a comment beside it, and come back from it.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.comments import CommentedMap
    from ruamel.yaml.util import load_yaml_guess_indent

    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = WIDTH
    data, indent, offset = load_yaml_guess_indent(text, yaml=yaml)
    if indent is not None:
        yaml.indent(sequence=indent, offset=offset or 0)
    if data is None:
        data = CommentedMap()
        text = text and text.rstrip("\n") + "\n"
    plugins = data.get("plugins")
    if plugins is None:
        data["plugins"] = plugins = CommentedMap()
    is_on = plugins[name] is not False if name in plugins else data.get("autoload") is not False
    if is_on is on:
        return text
    if on:
        plugins[name] = _kept_settings(plugins, name)
    else:
        _switch_off(plugins, name)
    stream = io.StringIO()
    yaml.dump(data, stream)
    is_only_comments = text.strip() and all(
        not line.strip() or line.lstrip().startswith("#") for line in text.splitlines()
    )
    return (text if is_only_comments else "") + stream.getvalue()


def _switch_off(plugins: Any, name: str) -> None:
    settings = plugins.get(name)
    plugins[name] = False
    if isinstance(settings, dict) and settings:
        plugins.yaml_add_eol_comment(f"{WAS}{json.dumps(settings, default=str)}", name)


def _kept_settings(plugins: Any, name: str) -> Any:
    """Return the settings that the comment beside a switched-off plugin holds, and drop it."""
    comment = plugins.ca.items.get(name, [None, None, None])[2]
    words = comment.value.strip().lstrip("# ") if comment is not None else ""
    if not words.startswith(WAS):
        return True
    try:
        kept = json.loads(words.removeprefix(WAS))
    except ValueError:
        return True
    del plugins.ca.items[name]
    return kept


def _check_known(name: str, context: CliContext) -> None:
    from dsh_core.harness import Harness

    known = {info.name for info in Harness(context.config(), cwd=context.cwd).plugins.infos()}
    if name not in known:
        raise ConfigError(
            f"there is no plugin {name!r}", remedy=f"Plugins: {', '.join(sorted(known))}."
        )


def _file(context: CliContext, *, user: bool) -> Path:
    if context.config_file is not None:
        return context.cwd / context.config_file
    if user:
        return user_dir(context.environ) / USER_FILE
    return find_project_file(context.cwd) or context.cwd / PROJECT_FILE


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", where=str(path)) from error


def _write(path: Path, content: bytes) -> None:
    """Put the new content in the old one's place in one step."""
    new = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new.write_bytes(content)
        if path.exists():
            new.chmod(path.stat().st_mode & 0o7777)
        new.replace(path.resolve())
    except OSError as error:
        new.unlink(missing_ok=True)
        raise UserError(f"cannot be written: {error.strerror}", where=str(path)) from error
