import ast
import inspect
from itertools import pairwise

import pydantic
import pytest

import dsh_files.settings
from dsh_files.settings import Settings


@pytest.mark.parametrize("name", ["read_limit_bytes", "grep_limit_matches"])
@pytest.mark.parametrize("value", [0, -1])
def test_a_limit_that_is_not_positive_is_refused_by_name(name, value):
    with pytest.raises(ValueError, match=f"{name} must be more than 0, not {value}"):
        Settings(**{name: value})


def test_what_yaml_holds_becomes_settings():
    values = {"allow": ["~/notes"], "engine": "python", "search_timeout_seconds": 5}
    assert pydantic.TypeAdapter(Settings).validate_python(values) == Settings(
        allow=("~/notes",), engine="python", search_timeout_seconds=5.0
    )


@pytest.mark.parametrize("values", [{"allow": "/"}, {"engine": "grep"}, {"glob_limit_files": 0}])
def test_what_cannot_be_used_is_refused_by_name(values):
    with pytest.raises(pydantic.ValidationError, match=next(iter(values))):
        pydantic.TypeAdapter(Settings).validate_python(values)


def test_every_setting_says_what_it_is_and_why():
    tree = ast.parse(inspect.getsource(dsh_files.settings))
    (body,) = (node.body for node in tree.body if isinstance(node, ast.ClassDef))
    for node, following in pairwise(body):
        if isinstance(node, ast.AnnAssign):
            assert isinstance(following, ast.Expr), ast.unparse(node)
            assert len(ast.literal_eval(following.value)) > 40
