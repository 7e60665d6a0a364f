"""`dsh plugins check` finds what an author got wrong, and says nothing about what works."""

from __future__ import annotations

import itertools
import json
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from program import Shell

from dsh_core.config.model import HarnessConfig, Layer
from dsh_core.errors import UserError
from dsh_core.testing.checkup import check, check_code, packaging_findings, subjects
from dsh_core.testing.checkup.arguments import arguments_for

ROOT = Path(__file__).resolve().parent.parent
HEAD = '''
"""A plugin."""
from dsh_core import Section, SlashCommand, StashKey, hookimpl, tool
'''
Write = Callable[[str], str]
_numbers = itertools.count()


@pytest.fixture
def write(tmp_path: Path) -> Iterator[Write]:
    """Write a plugin in one file; return its name, which no other test uses."""
    before = (set(sys.modules), list(sys.path))

    def write(text: str) -> str:
        name = f"checked_{next(_numbers)}"
        source = textwrap.dedent(text)
        (tmp_path / f"{name}.py").write_text(HEAD + source, encoding="utf-8")
        return f"{name}.py"

    yield write
    sys.path[:] = before[1]
    for name in set(sys.modules) - before[0]:
        if name.startswith("checked_"):
            del sys.modules[name]


@pytest.fixture
def found(write: Write, tmp_path: Path) -> Callable[..., list[str]]:
    """Check the plugin of a text; return its findings as `rule: message`."""

    def found(text: str) -> list[str]:
        (subject,) = subjects(write(text), tmp_path)
        findings = check_code(subject, HarnessConfig())
        return [f"{one.rule}: {one.message.replace(subject.name, 'NAME')}" for one in findings]

    return found


Found = Callable[..., list[str]]


def test_a_plugin_that_works_has_no_findings(found: Found) -> None:
    assert (
        found(
            '''
        @tool(read_only=True)
        def shout(text: str) -> str:
            """Say it loud.

            Args:
                text: What to say.
            """
            return text.upper()

        async def shouted(agent, rest):
            return rest.upper()

        @hookimpl
        def tools_register():
            return [shout]

        @hookimpl
        def commands_register():
            return [SlashCommand("shout", "Shout.", shouted)]

        @hookimpl
        async def system_prompt_sections():
            return [Section("shout", "Shout.")]
        '''
        )
        == []
    )


def test_every_refused_hook_is_found_not_only_the_first(found: Found) -> None:
    said = found(
        """
        @hookimpl
        def agent_creatd(agent): ...

        @hookimpl
        async def agent_request(reqest): ...

        def tools_result(call): ...
        """
    )

    assert [line.split(":")[1].strip().split(" ")[0] for line in said] == [
        "agent_creatd",
        "agent_request",
        "tools_result",
    ]
    assert "did you mean `request`?" in said[1]
    assert "is never called" in said[2]


@pytest.mark.parametrize(
    "base", ["@dataclass\n    class Settings:", "class Settings(BaseModel, extra='forbid'):"]
)
def test_a_field_needs_a_text_below_it(tmp_path: Path, base: str) -> None:
    project(
        tmp_path,
        f'''
"""A plugin."""
from dataclasses import dataclass
from pydantic import BaseModel

class Word:
    """A plugin."""

    {base}
        """Settings."""

        told: int = 1
        """How many."""
        untold: int = 2

    def __init__(self, settings): ...
''',
    )

    assert of_project(tmp_path) == ["settings: word.untold is not documented"]


def test_metadata_that_is_missing_is_found(tmp_path: Path) -> None:
    project(tmp_path, '"""A."""\nclass Word:\n    """A plugin."""', metadata="")

    assert of_project(tmp_path) == [
        "metadata: dsh-word has no description",
        "metadata: dsh-word has no readme",
        "metadata: dsh-word has no license",
        "metadata: dsh-word has no requires-python",
        "metadata: dsh-word does not depend on dsh-core",
    ]


def test_a_plugin_that_takes_any_later_core_is_found(tmp_path: Path) -> None:
    metadata = GOOD.replace("dsh-core>=0.1,<0.2", "dsh-core>=0.1")
    project(tmp_path, '"""A."""\nclass Word:\n    """A plugin."""', metadata=metadata)

    assert of_project(tmp_path) == ["metadata: dsh-word takes any later dsh-core: dsh-core>=0.1"]


def test_what_cannot_be_imported_is_one_finding(found: Found) -> None:
    assert found("import no_such_module") == [
        "import: cannot be imported: ModuleNotFoundError: No module named 'no_such_module'"
    ]


def test_a_slow_import_is_found_and_says_what_it_imports(write: Write, tmp_path: Path) -> None:
    name = write(
        """
        import time
        import wave
        end = time.process_time() + 0.4
        while time.process_time() < end:
            pass
        """
    )

    (subject,) = subjects(name, tmp_path)

    (finding,) = packaging_findings(subject)
    assert finding.message.startswith(f"importing {subject.name} takes 0.")
    assert "it imports" in finding.message
    assert "wave" in finding.message


def test_a_plugin_that_cannot_start_is_found(found: Found) -> None:
    (said,) = found("@hookimpl\ndef tools_register():\n    return [1]\n")

    assert said == "registration: tools_register: a int is no Tool"


def test_tools_that_the_model_knows_too_little_of_are_found(found: Found) -> None:
    assert found(
        '''
        @tool
        def shout(text: str) -> str:
            """Say it loud."""
            return text

        @hookimpl
        def tools_register():
            return [shout]
        '''
    ) == ["tool: shout: the model is not told what text is"]


LEAKS = {
    "system text": """
        said = []

        @hookimpl
        async def agent_request(agent, request):
            said.extend(m.text for m in request.messages)
            request.system += str(said)
        """,
    "messages": '''
        said = []

        @tool(read_only=True)
        def shout(text: str) -> str:
            """Say it loud.

            Args:
                text: What.
            """
            said.append(text)
            return str(said)

        @hookimpl
        def tools_register():
            return [shout]
        ''',
}


@pytest.mark.parametrize("part", LEAKS)
def test_what_one_agent_sees_of_another_is_found(found: Found, part: str) -> None:
    assert f"leak: what one agent was given is in the {part} of another's request" in found(
        LEAKS[part]
    )


@pytest.mark.parametrize("how", ["time.sleep(0.3)", "sum(i * i for i in range(3_000_000))"])
def test_what_holds_the_loop_is_found_with_its_place(found: Found, how: str) -> None:
    said = found(
        f"""
        import asyncio, time

        @hookimpl
        async def agent_step_start():
            await asyncio.sleep(0)
            {how}
        """
    )

    (held,) = [line for line in said if line.startswith("blocking")]
    assert "NAME.py, agent_step_start" in held


def test_waiting_does_not_hold_the_loop(found: Found) -> None:
    assert (
        found(
            """
        import asyncio, time

        @hookimpl
        async def agent_step_start():
            await asyncio.to_thread(time.sleep, 0.2)
            await asyncio.sleep(0.2)
        """
        )
        == []
    )


def test_what_is_left_when_the_plugin_is_gone_is_found(found: Found) -> None:
    said = found(
        '''
        import asyncio

        KEY = StashKey()
        MINE = StashKey("NAME.mine")
        tasks = []

        @tool
        def stays() -> str:
            """Stay."""
            return ""

        async def watch():
            await asyncio.Event().wait()

        @hookimpl
        async def harness_start(harness):
            harness.tools.register(stays, owner="somebody")

        @hookimpl
        async def agent_turn_start(agent):
            agent.stash[KEY] = 1
            agent.stash[MINE] = 1
            tasks.append(asyncio.create_task(watch(), name="watch"))
        '''
    )

    assert "left: the tool stays is still there when the plugin is not" in said
    assert "left: StashKey('') is still in the stash of agents when the plugin is not" in said
    assert "left: the task watch still runs when the plugin does not" in said
    assert len(said) == 4  # and a stash key that is named after the plugin goes with it


def test_what_fails_in_use_is_found(found: Found) -> None:
    said = found(
        """
        async def fails(agent, rest):
            raise ValueError("no")

        @hookimpl
        def commands_register():
            return [SlashCommand("fails", "Fail.", fails)]

        @hookimpl
        async def agent_turn_end():
            raise ValueError("late")
        """
    )

    assert "command: /fails: ValueError: no" in said
    assert any(line.startswith("hook: agent_turn_end: ValueError: late") for line in said)


def test_a_turn_that_fails_is_found(found: Found) -> None:
    said = found("@hookimpl\nasync def agent_step_start():\n    raise ValueError('no')\n")

    assert "run: a turn ended with" in said[0]
    assert "ValueError: no" in said[0]


def test_the_settings_of_the_user_count(tmp_path: Path) -> None:
    project(
        tmp_path,
        '''
"""A plugin."""
from dataclasses import dataclass
class Word:
    """A plugin."""
    @dataclass
    class Settings:
        """Settings."""
        key: str
        """Needed."""
    def __init__(self, settings): ...
''',
    )
    (subject,) = subjects(str(tmp_path), tmp_path)
    layers = (Layer("test", {"key": "x"}),)

    (missing,) = check_code(subject, HarnessConfig())
    assert missing.message == "plugins.word.key: Field required"
    assert check_code(subject, HarnessConfig(plugins={"word": layers})) == []


def test_nothing_of_the_user_is_touched(found: Found, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/mine")
    said = found(
        """
        import os

        @hookimpl
        async def agent_turn_start(agent):
            assert os.environ["HOME"] != "/mine"
            assert str(agent.cwd) != os.getcwd()
        """
    )

    assert said == []


# --------------------------------------------------------------------------- arguments


def test_arguments_fit_any_schema() -> None:
    schema = {
        "$defs": {"Kind": {"enum": ["a", "b"]}},
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "short": {"type": "string", "maxLength": 2},
            "count": {"type": "integer", "minimum": 3},
            "kind": {"$ref": "#/$defs/Kind"},
            "either": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
            "many": {"type": "array", "minItems": 1, "items": {"type": "string"}},
            "optional": {"type": "string"},
        },
        "required": ["text", "short", "count", "kind", "either", "many"],
    }

    assert arguments_for(schema, "mark") == {
        "text": "mark",
        "short": "ma",
        "count": 3,
        "kind": "a",
        "either": False,
        "many": ["mark"],
    }


# -------------------------------------------------------------------------- the command

GOOD = """
description = "Words."
readme = "README.md"
license = "MIT"
requires-python = ">=3.11"
dependencies = ["dsh-core>=0.1,<0.2"]
"""


def project(folder: Path, source: str, metadata: str = GOOD) -> None:
    package = folder / f"checked_{next(_numbers)}"
    package.mkdir()
    (package / "__init__.py").write_text(source, encoding="utf-8")
    (folder / "pyproject.toml").write_text(
        f'[project]\nname = "dsh-word"\n{metadata}\n'
        f'[project.entry-points.dsh]\nword = "{package.name}:Word"\n'
    )


def of_project(folder: Path) -> list[str]:
    (subject,) = subjects(str(folder), folder)
    return [f"{one.rule}: {one.message}" for one in check(subject, HarnessConfig())]


def test_the_template_and_an_installed_plugin_are_right(dsh: Shell) -> None:
    for wanted in (str(ROOT / "plugin-template"), "plan_mode"):
        done = dsh("plugins", "check", wanted)

        assert (done.returncode, "nothing is wrong" in done.stdout) == (0, True), done.stdout


def test_findings_are_lines_and_an_exit_code(dsh: Shell) -> None:
    dsh.write("mine.py", '"""Mine."""\ndef agent_request(request): ...\n')

    done = dsh("plugins", "check", "mine.py")
    rows = json.loads(dsh("plugins", "check", "mine.py", "--json").stdout)

    assert done.returncode == 1
    assert done.stdout.splitlines()[0].startswith("mine: hook: agent_request has the name")
    assert [row["rule"] for row in rows["mine"]] == ["hook"]


@pytest.mark.parametrize(
    ("wanted", "said"),
    [("nobody", "no installed plugin 'nobody'"), (".", "pyproject.toml"), ("empty", "no plugin")],
)
def test_what_is_no_plugin_is_said(tmp_path: Path, wanted: str, said: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "pyproject.toml").write_text('[project]\nname = "x"\n')

    with pytest.raises(UserError, match=said):
        subjects(wanted, tmp_path)
