"""Imports go one way: a module of the core imports only from its own row and the rows above it."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CORE = ROOT / "dsh_core"

ROWS = [
    ["plain", "errors", "record", "secret", "secrets"],
    [
        "tagged",
        "forms",
        "codec",
        "content",
        "messages",
        "request",
        "chunks",
        "events",
        "policy",
        "outcome",
    ],
    ["marks"],
    ["hookspecs"],
    ["hooks"],
    ["execution"],
    ["session"],
    ["llm.adapter", "http"],
    ["tools", "prompt", "llm", "commands"],
    ["agents"],
    ["builtin", "loop", "adapters"],
    ["config"],
    ["plugins"],
    ["harness"],
    ["cli", "testing", "__main__"],
]
ROW_OF = {name: index for index, row in enumerate(ROWS) for name in row}

LIGHT = ["dsh_core", "dsh_core.cli.main", "dsh_core.harness", "dsh_core.loop.agent"]
PUBLIC_MODULES = [
    "dsh_core.cli",
    "dsh_core.events",
    "dsh_core.execution",
    "dsh_core.hookspecs",
    "dsh_core.testing",
]
HEAVY = ["httpx", "httpx2", "pydantic", "pydantic_settings", "yaml"]


def modules() -> list[str]:
    paths = (path.relative_to(CORE) for path in CORE.rglob("*.py"))
    names = [".".join(path.with_suffix("").parts) for path in paths]
    return sorted(name.removesuffix(".__init__") for name in names if name != "__init__")


def row_of(module: str) -> int:
    """The row of the longest prefix that the table knows."""
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        found = ROW_OF.get(".".join(parts[:length]))
        if found is not None:
            return found
    raise AssertionError(f"dsh_core.{module} has no row in tests/test_layers.py")


def imports_of(module: str) -> Iterator[str]:
    """Modules of the core that a module imports, those for type checkers only left out."""
    path = CORE.joinpath(*module.split("."))
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    tree = ast.parse(source.read_text(encoding="utf-8"))
    hidden = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in hidden:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "dsh_core":
            for alias in node.names:
                yield f"dsh_core.{alias.name}"
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module


@pytest.mark.parametrize("module", modules())
def test_a_module_imports_only_from_rows_above_it(module: str) -> None:
    own = row_of(module)
    too_low = []
    for imported in imports_of(module):
        if not imported.startswith("dsh_core.") or imported == "dsh_core.__version__":
            continue
        other = imported.removeprefix("dsh_core.")
        if row_of(other) > own:
            too_low.append(imported)

    assert too_low == []


def test_the_loop_is_imported_by_nobody_but_by_name() -> None:
    importers = [
        module
        for module in modules()
        if not module.startswith("loop")
        and any(imported.startswith("dsh_core.loop") for imported in imports_of(module))
    ]

    assert importers == []


def plugin_sources() -> list[Path]:
    return sorted(
        path for folder in (ROOT / "dsh_plugins").iterdir() for path in folder.glob("dsh_*/**/*.py")
    )


@pytest.mark.parametrize("path", plugin_sources(), ids=lambda p: str(p.relative_to(ROOT)))
def test_a_plugin_imports_public_names_and_no_other_plugin(path: Path) -> None:
    own = path.relative_to(ROOT / "dsh_plugins").parts[1]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    wrong = []
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [node.module]
        for name in names:
            package = name.split(".")[0]
            if package.startswith("dsh_") and package not in (own, "dsh_core"):
                wrong.append(name)
            if name.startswith("dsh_core.") and name not in PUBLIC_MODULES:
                wrong.append(name)

    assert wrong == []


@pytest.mark.parametrize("module", LIGHT)
def test_importing_the_core_imports_nothing_heavy(module: str) -> None:
    code = f"import sys, {module}; print([m for m in {HEAVY!r} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout.strip() == "[]"


def test_every_module_can_be_imported_alone() -> None:
    code = (
        "import importlib, sys\n"
        f"for name in {[f'dsh_core.{m}' for m in modules() if m != '__main__']!r}:\n"
        "    before = set(sys.modules)\n"
        "    importlib.import_module(name)\n"
        "    for other in set(sys.modules) - before:\n"
        "        if other.startswith('dsh_core.'):\n"
        "            del sys.modules[other]\n"
    )
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True
    )

    assert run.returncode == 0, run.stderr
