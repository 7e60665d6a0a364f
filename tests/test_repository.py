"""Rules that hold for the repository as a whole."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import dsh_core

ROOT = Path(__file__).resolve().parent.parent
PLUGINS = sorted(path.parent for path in (ROOT / "dsh_plugins").glob("*/pyproject.toml"))
SOURCES = sorted(
    path
    for folder in (ROOT / "dsh_core", *PLUGINS)
    for path in folder.rglob("*.py")
    if "tests" not in path.relative_to(folder).parts
)
MAX_LINES = 400
MANUALS = ["dsh_core/events.py", "dsh_core/hookspecs.py"]
"""One file on purpose: readers look things up in them."""


def project(folder: Path) -> dict[str, Any]:
    data: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    return data


@pytest.mark.parametrize("folder", PLUGINS, ids=lambda p: p.name)
def test_one_word_names_a_plugin_everywhere(folder: Path) -> None:
    word = folder.name
    data = project(folder)["project"]

    assert data["name"] == f"dsh-{word.replace('_', '-')}"
    assert list(data["entry-points"]["dsh"]) == [word]
    assert data["entry-points"]["dsh"][word].partition(":")[0] == f"dsh_{word}"
    assert (folder / f"dsh_{word}" / "__init__.py").is_file()


@pytest.mark.parametrize("folder", PLUGINS, ids=lambda p: p.name)
def test_versions_go_in_lockstep(folder: Path) -> None:
    data = project(folder)["project"]
    major, minor = dsh_core.__version__.split(".")[:2]

    assert data["version"] == dsh_core.__version__
    assert f"dsh-core>={major}.{minor},<{major}.{int(minor) + 1}" in data["dependencies"]


@pytest.mark.parametrize("folder", PLUGINS, ids=lambda p: p.name)
def test_a_plugin_has_what_a_reader_expects(folder: Path) -> None:
    missing = [
        name
        for name in ("README.md", "LICENSE", f"dsh_{folder.name}/py.typed", "tests")
        if not (folder / name).exists()
    ]

    assert missing == []


def test_every_plugin_is_installed_by_the_one_command_and_the_extra() -> None:
    text = (ROOT / "tests/requirements.txt").read_text(encoding="utf-8")
    lines = [word.partition("[")[0] for word in text.split()]
    extra = " ".join(project(ROOT)["project"]["optional-dependencies"]["all"])

    assert [p.name for p in PLUGINS if f"dsh_plugins/{p.name}" not in lines] == []
    left_out = [p.name for p in PLUGINS if project(p)["project"]["name"] not in extra]
    assert left_out == ["invariants"], "for tests: installed means on, and it costs time"


def test_the_version_stands_in_one_more_place_only() -> None:
    assert project(ROOT)["project"]["version"] == dsh_core.__version__


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_file_holds_one_idea(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    if str(path.relative_to(ROOT)) not in MANUALS:
        assert len(text.splitlines()) <= MAX_LINES
    assert ast.get_docstring(ast.parse(text)), "a module says what it is for"


def test_public_names_are_the_same_for_people_and_type_checkers() -> None:
    stub = (ROOT / "dsh_core/__init__.pyi").read_text(encoding="utf-8")
    names = {
        alias.asname
        for node in ast.walk(ast.parse(stub))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    assert names == set(dsh_core.__all__) - {"__version__"}
    assert sorted(dsh_core.__all__) == dsh_core.__all__


@pytest.mark.parametrize("name", dsh_core.__all__)
def test_every_public_name_can_be_imported(name: str) -> None:
    assert getattr(dsh_core, name) is not None


def test_nothing_names_a_machine_or_a_registry() -> None:
    wrong = re.compile(r"/root/|/home/\w+/|/work/main|pypi\.org/simple|registry\.npmjs")
    texts = [*ROOT.rglob("*.md"), *ROOT.rglob("*.toml"), *ROOT.rglob("*.yaml"), *SOURCES]
    hidden = {".venv", "node_modules", ".git"}
    found = [
        str(path.relative_to(ROOT))
        for path in texts
        if not hidden & set(path.relative_to(ROOT).parts)
        and wrong.search(path.read_text(encoding="utf-8"))
    ]

    assert found == []
