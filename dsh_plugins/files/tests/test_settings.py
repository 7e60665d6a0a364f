import ast
import inspect
from dataclasses import fields
from itertools import pairwise

import dsh_files.settings
import pytest
from dsh_files.settings import Settings


@pytest.mark.parametrize("name", ["read_limit_bytes", "grep_limit_matches"])
@pytest.mark.parametrize("value", [0, -1])
def test_a_limit_that_is_not_positive_is_refused_by_name(name, value):
    with pytest.raises(ValueError, match=f"{name} must be more than 0, not {value}"):
        Settings(**{name: value})


def test_where_agents_may_go_counts_only_from_trusted_files():
    marked = [field.name for field in fields(Settings) if field.metadata.get("trusted_only")]
    assert marked == ["allow"]


def test_every_setting_says_what_it_is_and_why():
    tree = ast.parse(inspect.getsource(dsh_files.settings))
    (body,) = (node.body for node in tree.body if isinstance(node, ast.ClassDef))
    for node, following in pairwise(body):
        if isinstance(node, ast.AnnAssign):
            assert isinstance(following, ast.Expr), ast.unparse(node)
            assert len(ast.literal_eval(following.value)) > 40
