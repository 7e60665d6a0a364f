import pytest

from dsh_core.policy import Call, Effect
from dsh_files.effects import effects_of


def call(name, **arguments):
    return Call("c", name, arguments, "{}", 1, 1)


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "below", "written"),
    [
        ("read", {"file_path": "a/../b"}, "read", "b", "a/../b"),
        ("write", {"file_path": "b", "content": ""}, "write", "b", "b"),
        ("edit", {"file_path": "link", "old_string": "a"}, "write", "real", "link"),
        ("grep", {"pattern": "x"}, "read", "", "."),
        ("grep", {"pattern": "x", "path": None}, "read", "", "."),
        ("grep", {"pattern": "x", "path": "src"}, "read", "src", "src"),
        ("glob", {"pattern": "*.py"}, "read", "", "./"),
        ("glob", {"pattern": "src/**/*.py"}, "read", "src", "./src"),
        ("glob", {"pattern": "deep/*.py", "path": "src"}, "read", "src/deep", "src/deep"),
    ],
)
def test_a_call_names_its_effect_and_the_resolved_path(
    workspace, name, arguments, kind, below, written
):
    (workspace / "link").symlink_to("real")
    effect = Effect(kind, str(workspace / below), detail=written)
    assert effects_of(call(name, **arguments), workspace) == [effect]


def test_a_path_outside_is_named_too_so_that_policy_can_speak_first(workspace):
    (effect,) = effects_of(call("read", file_path="/etc/passwd"), workspace)
    assert effect.target == "/etc/passwd"


def test_a_path_that_cannot_be_resolved_has_no_target(workspace):
    (effect,) = effects_of(call("write", file_path="a\0", content=""), workspace)
    assert effect == Effect("write", None, certain=False, detail="a\0")


def test_other_calls_and_calls_that_cannot_run_are_left_to_others(workspace):
    assert effects_of(call("bash", command="ls"), workspace) is None
    broken = Call("c", "read", {}, "{", 1, 1, problem="not JSON")
    assert effects_of(broken, workspace) is None
    unknown = Call("c", "read", {"file_path": "a"}, "{}", 1, 1, known=False)
    assert effects_of(unknown, workspace) is None
