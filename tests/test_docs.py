"""The documentation is true: generated pages are fresh, examples run, links lead somewhere."""

from __future__ import annotations

import ast
import asyncio
import importlib.util
import inspect
import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import jsonschema
import pytest

from dsh_core import hookspecs
from dsh_core.config.load import load_config
from dsh_core.config.trust import TrustStore
from dsh_core.config.yaml import read_document
from dsh_core.marks import MODE_ATTRIBUTE

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
HOOKS = [name for name, spec in vars(hookspecs).items() if hasattr(spec, MODE_ATTRIBUTE)]


def load_generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs/generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["docs_generate"] = module
    spec.loader.exec_module(module)
    return module


GENERATOR = load_generator()


@pytest.mark.parametrize("name", GENERATOR.PAGES)
def test_a_generated_page_is_fresh(name: str) -> None:
    written = (ROOT / "docs" / name).read_text(encoding="utf-8")

    assert written == GENERATOR.PAGES[name](), "run `make docs`"


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_says_when_what_and_shows_an_example(name: str) -> None:
    doc = inspect.getdoc(getattr(hookspecs, name)) or ""
    example = textwrap.dedent(doc.partition("Example:\n")[2])

    for part in ("When: ", "Arguments: ", "Return: "):
        assert part in doc
    function = ast.parse(example).body[0]
    assert isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
    assert function.name == name
    assert len(example.splitlines()) <= 6


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.S)


def written_by_hand() -> list[Path]:
    return [page for page in PAGES if page.name not in GENERATOR.PAGES]


YAML_BLOCKS = [(page, text) for page in written_by_hand() for text in blocks(page, "yaml")]
PYTHON_BLOCKS = [(page, text) for page in written_by_hand() for text in blocks(page, "python")]


def place(value: object) -> str:
    return value.stem if isinstance(value, Path) else "block"


@pytest.mark.parametrize(("page", "text"), YAML_BLOCKS, ids=place)
def test_a_yaml_example_loads(page: Path, text: str, tmp_path: Path) -> None:
    file = tmp_path / "dsh.yaml"
    file.write_text(text, encoding="utf-8")
    environ = {"DEEPSEEK_API_KEY": "sk-example", "DSH_USER_DIR": str(tmp_path / "user")}
    trust = TrustStore(tmp_path / "user")

    config = load_config(cwd=tmp_path, file=file, environ=environ, trust=trust)

    assert config.providers or config.plugins


EXAMPLES = sorted((ROOT / "examples").glob("*/dsh.yaml"))
SCHEMA_LINE = re.compile(r"# yaml-language-server: \$schema=(\S+)\n")


@pytest.fixture(scope="module", params=["printed", "written"])
def schema(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> jsonschema.Draft202012Validator:
    """What `dsh config schema` prints, and the file in `docs/` that examples name."""
    if request.param == "written":
        text = (ROOT / "docs/dsh.schema.json").read_text(encoding="utf-8")
    else:
        home = tmp_path_factory.mktemp("home")
        done = subprocess.run(
            [sys.executable, "-P", "-m", "dsh_core", "config", "schema"],
            cwd=home,
            env={"HOME": str(home), "DSH_USER_DIR": str(home)},
            capture_output=True,
            text=True,
            check=True,
        )
        text = done.stdout
    jsonschema.Draft202012Validator.check_schema(json.loads(text))
    return jsonschema.Draft202012Validator(json.loads(text))


@pytest.mark.parametrize(
    ("page", "text"), [*YAML_BLOCKS, *((path, path.read_text()) for path in EXAMPLES)], ids=place
)
def test_yaml_fits_the_schema_that_editors_use(
    page: Path, text: str, schema: jsonschema.Draft202012Validator
) -> None:
    data = read_document(text.encode(), page.name).data

    assert [error.message for error in schema.iter_errors(data)] == []


@pytest.mark.parametrize(
    "text",
    [
        "agents: {a: {modle: x}}",
        "plugins: {shell: {timeout_second: 1}}",
        "plugins: {shell: {timeout_seconds: soon}}",
        "plugins: {limits: {max_steps: [1]}}",
    ],
)
def test_the_schema_finds_what_is_wrong(text: str, schema: jsonschema.Draft202012Validator) -> None:
    assert not schema.is_valid(read_document(text.encode(), "bad").data)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_an_example_tells_editors_where_its_schema_is(path: Path) -> None:
    found = SCHEMA_LINE.match(path.read_text(encoding="utf-8"))

    assert found is not None
    assert (path.parent / found[1]).resolve() == ROOT / "docs/dsh.schema.json"


@pytest.mark.parametrize(("page", "text"), PYTHON_BLOCKS, ids=place)
def test_a_python_example_runs(
    page: Path, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dsh_home: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    module = ModuleType("example")
    monkeypatch.setitem(sys.modules, "example", module)

    exec(compile(text, f"{page.name} example", "exec"), vars(module))

    main = getattr(module, "main", None)
    if inspect.iscoroutinefunction(main):
        asyncio.run(main())


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.S)
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", prose)
    dead = [
        target for target in targets if "://" not in target and not (page.parent / target).exists()
    ]

    assert dead == []
