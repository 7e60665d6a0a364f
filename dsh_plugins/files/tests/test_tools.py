import json
from dataclasses import replace
from pathlib import Path

import pytest

from dsh_core.errors import ToolError
from dsh_core.policy import MAY_WRITE, Call, Effect
from dsh_core.tools import InvalidArgumentsError

ARGUMENTS = {
    "read": ["file_path", "offset", "limit"],
    "write": ["file_path", "content"],
    "edit": ["file_path", "old_string", "new_string", "replace_all"],
    "glob": ["pattern", "path"],
    "grep": ["pattern", "path", "include"],
}


def test_names_and_arguments_are_the_agreed_ones(hand):
    schemas = {tool.name: tool.schema for tool in hand.tools.all()}
    assert {name: list(schema.parameters["properties"]) for name, schema in schemas.items()} == (
        ARGUMENTS
    )


def test_every_tool_and_argument_is_described_in_few_words(hand):
    for tool in hand.tools.all():
        assert 20 < len(tool.description) < 400
        for name, schema in tool.schema.parameters["properties"].items():
            assert schema.get("description"), (tool.name, name)
    assert sum(len(json.dumps(tool.schema.parameters)) for tool in hand.tools.all()) < 3_500


def test_only_tools_that_change_nothing_run_side_by_side(hand):
    assert {tool.name for tool in hand.tools.all() if tool.read_only} == {"read", "glob", "grep"}


def test_what_read_returns_is_never_spilled(new_hand, workspace):
    (workspace / "a").write_text(("x" * 120 + "\n") * 5_000)
    for settings in ({}, {"read_limit_bytes": 300_000}):
        hand = new_hand(**settings)
        read = next(tool for tool in hand.tools.all() if tool.name == "read")
        size = len(hand.read("a", limit=5_000).encode())
        assert settings.get("read_limit_bytes", 51_200) * 0.9 < size < read.inline_limit_bytes


def test_case_040_text_that_clearly_means_another_type_is_taken_as_that(hand):
    read, _, edit, *_ = hand.tools.all()
    values = read.parameters.validate(
        {"file_path": "three.txt", "offset": "2", "limit": "1"}
    ).values
    assert values == {"file_path": "three.txt", "offset": 2, "limit": 1}
    arguments = {"file_path": "f", "old_string": "x", "new_string": "y"}
    for text, value in [("false", False), ("true", True)]:
        validated = edit.parameters.validate({**arguments, "replace_all": text})
        assert validated.values["replace_all"] is value
    with pytest.raises(InvalidArgumentsError, match="offset"):
        read.parameters.validate({"file_path": "f", "offset": "many"})


@pytest.mark.parametrize("name", ["glob", "grep"])
@pytest.mark.parametrize("path", ["", None])
def test_optional_text_left_empty_counts_as_absent(hand, workspace, name, path):
    (workspace / "x").write_text("x")
    assert "x" in hand.call(name, pattern="x", path=path).text


def test_a_link_that_moved_after_the_call_was_judged_is_refused(hand, workspace, tmp_path):
    (workspace / "inside").write_text("x")
    (workspace / "link").symlink_to("inside")
    arguments = {"file_path": "link"}
    call = Call("c", "read", arguments, "{}", 1, 1)
    judged = replace(call, effects=(Effect("read"), Effect("read", str(workspace / "other"))))
    with pytest.raises(ToolError, match="leads elsewhere") as caught:
        hand.run(hand.tools.read.function, judged)
    assert caught.value.code == "FS_PATH_CHANGED"
    for effects in [
        (MAY_WRITE,),
        (Effect("read"),),
        (Effect("write", "/else"),),
        (Effect("read", str(workspace / "inside")), Effect("read", "/etc")),
    ]:
        assert hand.run(hand.tools.read.function, replace(call, effects=effects))


def test_two_harnesses_share_nothing(new_hand, workspace):
    one, two = new_hand(), new_hand()
    one.write("a", "x\n")
    assert two.failure("write", file_path="a", content="y").code == "FS_NOT_OBSERVED"
    assert one.tools._locks is not two.tools._locks


def test_names_match_the_case_runners_table(hand):
    table = Path("/work/shared/cases/files/tools/names.json")
    if not table.exists():
        pytest.skip("the case files are not here")
    for entry in json.loads(table.read_text()).values():
        if entry["name"] in ARGUMENTS:
            assert set(entry["args"].values()) == set(ARGUMENTS[entry["name"]])
