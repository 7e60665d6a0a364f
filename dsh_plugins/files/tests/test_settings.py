import ast
import inspect
from itertools import pairwise

import dsh_files.settings
import pytest
from dsh_files.settings import Settings

from dsh_core import TRUSTED_ONLY, ConfigError
from dsh_core.config.model import Layer
from dsh_core.plugins.settings import build, marked, merge


@pytest.mark.parametrize("name", ["read_limit_bytes", "grep_limit_matches"])
@pytest.mark.parametrize("value", [0, -1])
def test_a_limit_that_is_not_positive_is_refused_by_name(name, value):
    with pytest.raises(ValueError, match=f"{name} must be more than 0, not {value}"):
        Settings(**{name: value})


def test_where_agents_may_go_counts_only_from_trusted_files():
    assert marked(Settings, TRUSTED_ONLY) == {"allow"}


def test_every_setting_says_what_it_is_and_why():
    tree = ast.parse(inspect.getsource(dsh_files.settings))
    (body,) = (node.body for node in tree.body if isinstance(node, ast.ClassDef))
    for node, following in pairwise(body):
        if isinstance(node, ast.AnnAssign):
            assert isinstance(following, ast.Expr), ast.unparse(node)
            assert len(ast.literal_eval(following.value)) > 40


def from_yaml(**values):
    layers = [Layer("dsh.yaml", values)]
    merged, _ = merge(Settings, "files", layers)
    return build(Settings, "files", merged, layers)


def test_what_yaml_holds_becomes_settings():
    settings = from_yaml(allow=["~/notes"], engine="python", search_timeout_seconds=5)
    assert settings == Settings(allow=("~/notes",), engine="python", search_timeout_seconds=5.0)


@pytest.mark.parametrize(
    "values", [{"allow": "/"}, {"engine": "grep"}, {"glob_limit_files": 0}, {"no_such": 1}]
)
def test_what_cannot_be_used_is_a_configuration_error(values):
    with pytest.raises(ConfigError, match=rf"plugins\.files.*{next(iter(values))}|must be more"):
        from_yaml(**values)
