"""Which plugin is checked: an installed one, one in a folder with a `pyproject.toml`, or a file."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from dsh_core.errors import UserError
from dsh_core.plugins.discovery import CORE_DISTRIBUTION, GROUP, installed_plugins
from dsh_core.record import record

LAYOUTS = (".", "src")
"""Where in a project's folder its packages are."""


@record()
class Metadata:
    """What a distribution says of itself; the texts are "" where it says nothing."""

    name: str
    description: str
    readme: bool
    license: bool
    requires_python: str
    requirements: tuple[str, ...]


@record()
class Subject:
    """A plugin that is checked.

    Args:
        name: Its name in YAML.
        target: `module` or `module:attribute`.
        path: What has to be on `sys.path` for the import; None = it is installed.
        metadata: Of its distribution; None for a single file.
        load: Imports it and returns class or module; raises what its modules raise.

    """

    name: str
    target: str
    path: Path | None
    metadata: Metadata | None
    load: Callable[[], object]

    @property
    def module(self) -> str:
        """The module that is imported."""
        return self.target.partition(":")[0]

    @property
    def folder(self) -> Path | None:
        """Where the code of the loaded plugin is."""
        file = getattr(sys.modules.get(self.module), "__file__", None)
        if file is None:
            return None
        path = Path(file)
        return path.parent if path.name == "__init__.py" else path


def subjects(wanted: str, cwd: Path) -> list[Subject]:
    """Return the plugins that a path or a name means.

    Raises `UserError` when it means none.
    """
    path = cwd / wanted
    if path.is_dir():
        return list(_in_project(path.resolve(), wanted))
    if path.is_file() and path.suffix == ".py":
        return [_in_file(path.resolve())]
    return [_installed(wanted)]


def _installed(name: str) -> Subject:
    from importlib.metadata import distribution

    found = installed_plugins()
    if name not in found:
        raise UserError(
            f"there is no folder and no installed plugin {name!r}",
            remedy=f"Installed are: {', '.join(sorted(found)) or 'none'}.",
        )
    one = found[name]
    said = distribution(one.distribution)
    texts = said.metadata.json
    metadata = Metadata(
        one.distribution,
        str(texts.get("summary", "")),
        readme=bool(texts.get("description")),
        license=bool(texts.get("license_expression") or texts.get("license")),
        requires_python=str(texts.get("requires_python", "")),
        requirements=tuple(said.requires or ()),
    )
    return Subject(name, one.target, None, metadata, one.load)


def _in_project(folder: Path, wanted: str) -> Iterator[Subject]:
    file = folder / "pyproject.toml"
    try:
        project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
    except (OSError, ValueError, KeyError) as error:
        raise UserError(
            f"cannot be read: {error}", where=str(file), remedy="A plugin's folder has one."
        ) from error
    points: Mapping[str, str] = project.get("entry-points", {}).get(GROUP, {})
    if not points:
        raise UserError(
            "there is no plugin in this project",
            where=str(file),
            remedy=f'Add [project.entry-points.{GROUP}] with NAME = "dsh_NAME:Class".',
        )
    for name, target in points.items():
        clean = target.partition("[")[0].replace(" ", "")
        root = next((r for r in map(folder.joinpath, LAYOUTS) if _holds(r, clean)), folder)
        yield Subject(name, clean, root.resolve(), _metadata(project), _loader(clean, root))


def _holds(root: Path, target: str) -> bool:
    package = target.partition(":")[0].partition(".")[0]
    return (root / package).is_dir() or (root / f"{package}.py").is_file()


def _metadata(project: Mapping[str, Any]) -> Metadata:
    return Metadata(
        str(project.get("name", "")),
        str(project.get("description", "")),
        readme="readme" in project,
        license="license" in project,
        requires_python=str(project.get("requires-python", "")),
        requirements=tuple(project.get("dependencies", ())),
    )


def _loader(target: str, root: Path) -> Callable[[], object]:
    def load() -> object:
        if str(root) not in sys.path:
            sys.path.insert(0, str(root))
        module, _, attribute = target.partition(":")
        found: object = importlib.import_module(module)
        for part in filter(None, attribute.split(".")):
            found = getattr(found, part)
        return found

    return load


def _in_file(path: Path) -> Subject:
    name = path.stem

    def load() -> ModuleType:
        if str(path.parent) not in sys.path:
            sys.path.insert(0, str(path.parent))
        return importlib.import_module(name)

    return Subject(name, name, path.parent, None, load)


def core_requirement(requirements: Sequence[str]) -> str | None:
    """Return the requirement of the core, if there is one."""
    pattern = re.compile(rf"{CORE_DISTRIBUTION}(?![\w-])", re.IGNORECASE)
    return next((one for one in requirements if pattern.match(one)), None)
