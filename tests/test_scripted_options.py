import json
import subprocess
import sys
from types import MappingProxyType

import pytest
from scripted_stage import asking, played, said

from dsh_core.adapters.scripted import ScriptedModel, open_scripted
from dsh_core.builtin.adapters import SCRIPTED
from dsh_core.chunks import (
    BlockEnd,
)
from dsh_core.content import ToolCall
from dsh_core.errors import ConfigError, LlmFailure
from dsh_core.llm.adapter import ProviderConfig


def opened(folder=None, **options):
    return open_scripted(ProviderConfig("demo", "scripted", options=options, folder=folder))


async def failure_of(model, request=None):
    with pytest.raises(LlmFailure) as failure:
        await played(model, request)
    return failure.value


async def test_replies_stand_in_the_configuration():
    frozen = (MappingProxyType({"calls": (MappingProxyType({"name": "bash"}),)}), "done")

    model = opened(replies=frozen)

    assert BlockEnd(0, ToolCall("call_1_1", "bash", "{}")) in await played(model)
    assert await said(model) == "done"


@pytest.mark.parametrize(
    ("name", "text"),
    [("r.yaml", "- one\n- text: two\n"), ("r.json", json.dumps(["one", {"text": "two"}]))],
)
async def test_replies_stand_in_a_file_of_the_project(tmp_path, name, text):
    (tmp_path / name).write_text(text)

    model = opened(script=name, folder=tmp_path, loop=True)

    assert [await said(model) for _ in range(3)] == ["one", "two", "one"]


async def test_an_absolute_script_needs_no_folder(tmp_path):
    (tmp_path / "r.yaml").write_text("- one\n")

    assert await said(opened(script=str(tmp_path / "r.yaml"))) == "one"


async def test_a_function_is_asked_for_every_request(tmp_path, monkeypatch):
    (tmp_path / "my_demo_replies.py").write_text(
        "def answer(request):\n    return f'heard {request.messages[-1].text}'\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))

    model = opened(function="my_demo_replies:answer")

    assert await said(model, asking("a")) == "heard a"
    assert await said(model, asking("b")) == "heard b"


@pytest.mark.parametrize(
    ("options", "where", "message"),
    [
        ({}, "providers.demo", "expected one of replies, script, function, found none of them"),
        ({"replies": [], "script": "x"}, "providers.demo", "found replies and script"),
        ({"replies": "hi"}, "providers.demo.replies", "expected a list of replies, found str"),
        ({"replies": ["x"], "loop": "yes"}, "providers.demo.loop", "expected true or false"),
        ({"replies": ["x"], "delay_seconds": True}, "providers.demo.delay_seconds", "a number"),
        ({"replies": ["x"], "delay_seconds": -1}, "providers.demo.delay_seconds", "negative"),
        ({"function": "nowhere"}, "providers.demo.function", "'nowhere' is no function"),
        ({"function": "no_such_module:f"}, "providers.demo.function", "No module named"),
        ({"function": "json:nothing"}, "providers.demo.function", "no attribute 'nothing'"),
        ({"function": "json:__name__"}, "providers.demo.function", "json:__name__ is str"),
        ({"script": "/no/such/file"}, "/no/such/file", "cannot be read"),
    ],
)
def test_options_that_cannot_be_used_are_refused(options, where, message):
    with pytest.raises(ConfigError) as error:
        opened(**options)

    assert error.value.where == where
    assert message in error.value.message


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"txt": "hi"}, "unknown key txt"),
        ({"text": False}, "text: expected text, found bool 'False'"),
        ({"calls": [{"nome": "bash"}]}, "calls.0.name is missing"),
        ({"calls": [{"name": "a", "args": {}}]}, "unknown key calls.0.args"),
        ({"calls": "bash"}, "calls: expected a list, found str 'bash'"),
        ({"expect": {"last": "x"}}, "unknown key expect.last"),
        ({"calls": [{"name": "a", "arguments": 3}]}, "calls.0.arguments: expected a mapping"),
        ({"expect": {"contains": ["a", 3]}}, "expect.contains.1: expected text, found int '3'"),
        ({"expect": {"contains": 3}}, "expect.contains: expected text, found int '3'"),
        ({"expect": {"messages_at_least": "many"}}, "expect.messages_at_least: Input should be"),
        ({"expect": ["x"]}, "expect: expected a mapping, found list"),
        ({"fail": {"message": "x"}}, "fail.code is missing"),
        ({"usage": {"tokens": 3}}, "unknown key usage.tokens"),
        (3, "a reply: expected a mapping, found int '3'"),
        ({"calls": [{"name": "a", "arguments": {"when": object()}}]}, "object has no JSON form"),
    ],
)
def test_an_entry_that_does_not_fit_is_named(entry, message):
    with pytest.raises(ConfigError) as error:
        opened(replies=["fine", entry])

    assert error.value.where == "providers.demo.replies, reply 2"
    assert error.value.message.startswith(message)


@pytest.mark.parametrize(
    ("name", "text", "where"),
    [
        ("r.yaml", "- a\n- txt: b\n", "r.yaml, reply 2"),
        ("r.yaml", "- a\n- [b\n", "r.yaml:3"),
        ("r.yaml", "text: a\n", "r.yaml"),
        ("r.json", '["a",\n {]', "r.json:2"),
    ],
)
def test_a_script_file_that_does_not_fit_is_named_with_its_place(tmp_path, name, text, where):
    (tmp_path / name).write_text(text)

    with pytest.raises(ConfigError) as error:
        opened(script=name, folder=tmp_path)

    assert error.value.where == str(tmp_path / where)


def test_the_factory_names_its_options():
    assert SCRIPTED.name == "scripted"
    provider = ProviderConfig("demo", "scripted", options={"replies": ["hi"]})
    assert isinstance(SCRIPTED.open(provider), ScriptedModel)
    assert "script" in SCRIPTED.options


def test_importing_the_adapter_imports_nothing_heavy():
    code = (
        "import sys, dsh_core.adapters.scripted\n"
        "print([m for m in ('pydantic', 'yaml', 'httpx') if m in sys.modules])"
    )

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout == "[]\n"
