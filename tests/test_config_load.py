"""Loading: files, environment and command line in one precedence list."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from dsh_core.config.load import load_config, missing_model_error
from dsh_core.config.model import AgentDefinition, HarnessConfig, Layer
from dsh_core.config.trust import TrustStore
from dsh_core.errors import ConfigError
from dsh_core.secret import Secret

Load = Callable[..., HarnessConfig]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Write the two files and load; the project's is trusted unless a test says otherwise."""

    def load(
        project: str | None = None,
        user: str | None = None,
        environ: Mapping[str, str] | None = None,
        overrides: Sequence[str] = (),
        *,
        trusted: bool = True,
        **options: Any,
    ) -> HarnessConfig:
        folder, home = tmp_path / "project", tmp_path / "user"
        folder.mkdir(exist_ok=True)
        home.mkdir(exist_ok=True)
        store = TrustStore(home)
        if user is not None:
            (home / "config.yaml").write_text(user)
        if project is not None:
            (folder / "dsh.yaml").write_text(project)
            if trusted:
                store.trust(folder / "dsh.yaml", project.encode())
        variables = {"HOME": str(tmp_path), "DSH_USER_DIR": str(home), **(environ or {})}
        return load_config(
            **{
                "cwd": folder,
                "environ": variables,
                "overrides": overrides,
                "trust": store,
                **options,
            }
        )

    return load


def refused(load: Load, *arguments: Any, **keywords: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load(*arguments, **keywords)
    return caught.value


def values(layers: Sequence[Layer]) -> list[Any]:
    return [layer.values for layer in layers]


DESIGN = """\
default_agent: coder
providers:
  deepseek:
    adapter: openai_chat
    base_url: https://api.deepseek.com
    api_key: ${DEEPSEEK_API_KEY}
    models: {deepseek-chat: {context_window_tokens: 131072}}
plugins:
  persistence: {backend: jsonl}
  compaction: {threshold: 0.8}
  permission:
    allow: ["Bash(npm run test:*)", "Edit(src/**)"]
    ask: ["Bash(git push:*)"]
    deny: ["Read(.env)"]
agents:
  coder:
    model: deepseek/deepseek-chat
    system_prompt: You are a careful software engineer.
    tools: [read, write, edit, glob, grep, bash]
  reviewer:
    model: deepseek/deepseek-reasoner
    tools: [read, glob, grep]
    plugins: {permission: {deny: [Bash, Edit]}}
"""


def test_the_documented_example_becomes_providers_agents_and_layers(
    load: Load, tmp_path: Path
) -> None:
    config = load(DESIGN, environ={"DEEPSEEK_API_KEY": "sk-123\n"})

    provider = config.providers["deepseek"]
    assert (provider.adapter, provider.base_url) == ("openai_chat", "https://api.deepseek.com")
    assert provider.api_key == Secret("sk-123")
    assert provider.model("deepseek-chat").context_window_tokens == 131072
    assert config.default_agent == "coder"
    assert config.agents["coder"] == AgentDefinition(
        name="coder",
        model="deepseek/deepseek-chat",
        system_prompt="You are a careful software engineer.",
        tools=("read", "write", "edit", "glob", "grep", "bash"),
        where="dsh.yaml:16:3",
    )
    assert list(config.plugins) == ["persistence", "compaction", "permission"]
    (override,) = config.agents["reviewer"].plugins["permission"]
    assert override.values == {"deny": ["Bash", "Edit"]}
    assert override.lines == {"": 23, "deny": 23, "deny.0": 23, "deny.1": 23}
    assert config.project_dir == tmp_path / "project"
    assert config.files == (tmp_path / "project/dsh.yaml",)
    assert config.origins["agents.coder.tools.3"] == "dsh.yaml:19:32"
    assert config.notes == ()


# Precedence


def test_each_source_is_stronger_than_the_one_before(load: Load) -> None:
    def adapter(count: int) -> str:
        arguments: list[Any] = [
            ("user", "providers: {x: {adapter: user}}"),
            ("project", "providers: {x: {adapter: project}}"),
            ("environ", {"DSH_PROVIDERS__X__ADAPTER": "environment"}),
            ("overrides", ["providers.x.adapter=option"]),
        ][:count]
        return (
            load(**{"overrides": ["providers.x.base_url=http://x"], **dict(arguments)})
            .providers["x"]
            .adapter
        )

    assert [adapter(count) for count in range(5)] == [
        "openai_chat",
        "user",
        "project",
        "environment",
        "option",
    ]


def test_mappings_merge_by_key_and_scalars_and_lists_replace(load: Load) -> None:
    config = load(
        user="providers:\n"
        "  x: {base_url: http://user, headers: {a: 1, b: 1}, models: {m: {reasoning: drop}}}\n"
        "agents: {a: {tools: [read, write], parameters: {top_p: 0.5, stop: [x]}}}\n",
        project="providers:\n"
        "  x: {headers: {b: 2}, models: {m: {context_window_tokens: 5}, n: {}}}\n"
        "agents: {a: {tools: [bash], parameters: {stop: []}}}\n",
    )

    provider = config.providers["x"]
    assert provider.base_url == "http://user"
    assert provider.options == {"headers": {"a": 1, "b": 2}}
    assert (provider.model("m").reasoning, provider.model("m").context_window_tokens) == ("drop", 5)
    assert list(provider.models) == ["m", "n"]
    assert config.agents["a"].tools == ("bash",)
    assert config.agents["a"].parameters == {"top_p": 0.5, "stop": []}


def test_an_empty_section_takes_nothing_away(load: Load) -> None:
    config = load(
        user="providers: {x: {base_url: http://x}}\n"
        "agents: {a: {tools: []}}\nplugins: {p: {k: 1}}\n",
        project="providers:\nagents:\n  a:\nplugins:\n",
    )

    assert config.providers["x"].base_url == "http://x"
    assert config.agents["a"].tools == ()
    assert values(config.plugins["p"]) == [{"k": 1}]


def test_plugins_are_asked_in_the_order_of_the_files(load: Load) -> None:
    config = load(
        user="plugins: {b: {}, a: {x: 1}}",
        project="plugins: {c: {}, a: {x: 2}, b: true}",
        environ={"DSH_PLUGINS__D__K": "1", "DSH_PLUGINS__A__X": "3"},
        overrides=["plugins.e.k=1", "plugins.a.x=4"],
    )

    assert list(config.plugins) == ["b", "a", "c", "d", "e"]
    assert values(config.plugins["a"]) == [{"x": 1}, {"x": 2}, {"x": 3}, {"x": 4}]
    sources = [layer.source for layer in config.plugins["a"]]
    assert sources[1:] == ["dsh.yaml", "environment", "-s"]
    assert sources[0].endswith("/user/config.yaml")


def test_a_plugin_may_be_off_on_or_on_with_settings(load: Load) -> None:
    config = load("plugins: {a: false, b: true, c: , d: {a: [1, {b: 2}]}}")

    states = {name: layers[0].values for name, layers in config.plugins.items()}
    assert states == {"a": False, "b": {}, "c": {}, "d": {"a": [1, {"b": 2}]}}


def test_environment_and_options_give_settings_and_switch_nothing(load: Load) -> None:
    config = load(
        "plugins: {p: false}",
        environ={"DSH_PLUGINS__P__K": "1", "DSH_AGENTS__A__PLUGINS__P__K": "2"},
        overrides=["plugins.p.k=3", "plugins.q={k: 4}"],
    )

    assert [layer.settings_only for layer in config.plugins["p"]] == [False, True, True]
    assert config.plugins["q"][0].settings_only
    assert config.agents["a"].plugins["p"][0].settings_only


def test_a_layer_knows_lines_numbers_as_written_and_variables(load: Load) -> None:
    config = load(
        "plugins:\n  p:\n    version: 1.10\n    nested: {token: '${T}', id: 7}\n",
        environ={"T": "secret"},
    )

    (layer,) = config.plugins["p"]
    assert layer.values == {"version": 1.1, "nested": {"token": "secret", "id": 7}}
    assert layer.lines == {"": 2, "version": 3, "nested": 4, "nested.token": 4, "nested.id": 4}
    assert layer.written == {"version": "1.10", "nested.id": "7"}
    assert layer.variables == {"nested.token": "${T}"}


# Which files


def test_the_project_file_is_looked_for_up_to_the_repositorys_root(
    load: Load, tmp_path: Path
) -> None:
    (tmp_path / "dsh.yaml").write_text("plugins: {above: {}}")
    deep = tmp_path / "repo/a/b"
    deep.mkdir(parents=True)
    (tmp_path / "repo/.git").mkdir()
    home = {"HOME": "/nowhere", "DSH_USER_DIR": str(tmp_path / "user")}

    found = load(cwd=deep, environ=home)
    assert (found.files, found.project_dir) == ((), deep)
    (tmp_path / "repo/dsh.yaml").write_text("plugins: {repo: {}}")
    found = load(cwd=deep, environ=home)
    assert (list(found.plugins), found.project_dir) == (["repo"], tmp_path / "repo")
    (deep / "dsh.yaml").write_text("plugins: {deep: {}}")
    assert list(load(cwd=deep, environ=home).plugins) == ["deep"]


def test_outside_a_repository_no_folder_above_counts(load: Load, tmp_path: Path) -> None:
    (tmp_path / "dsh.yaml").write_text("plugins: {above: {}}")
    deep = tmp_path / "a/b"
    deep.mkdir(parents=True)

    assert load(cwd=deep).plugins == {}
    (deep / "dsh.yaml").write_text("plugins: {own: {}}")
    assert list(load(cwd=deep).plugins) == ["own"]


def test_a_named_file_replaces_the_projects_and_is_trusted(load: Load, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("plugins: {other: false}\nautoload: false\n")
    config = load("plugins: {project: {}}", user="plugins: {own: {}}", file=other, trusted=False)

    assert list(config.plugins) == ["own", "other"]
    assert not config.autoload
    assert config.notes == ()
    assert config.project_dir == tmp_path / "project"


def test_a_relative_named_file_is_found_from_the_working_directory(
    load: Load, tmp_path: Path
) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project/ci.yaml").write_text("plugins: {ci: {}}")

    assert list(load(file=Path("ci.yaml")).plugins) == ["ci"]


def test_a_named_file_that_does_not_exist_is_an_error(load: Load) -> None:
    error = refused(load, file=Path("nowhere.yaml"))

    assert (error.where, error.message) == ("nowhere.yaml", "the file does not exist")


def test_a_folder_in_place_of_a_file_is_an_error(load: Load, tmp_path: Path) -> None:
    assert "cannot be read: Is a directory" in refused(load, file=tmp_path).message


def test_a_file_with_the_wrong_ending_is_not_ignored_silently(load: Load, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project/dsh.yml").write_text("plugins: {}")

    assert load().notes == ("dsh.yml is not read: its name must be dsh.yaml",)


def test_without_any_file_there_is_one_agent(load: Load, tmp_path: Path) -> None:
    config = load()

    assert config.agents == {"default": AgentDefinition()}
    assert (config.default_agent, config.providers, config.plugins) == ("default", {}, {})
    assert config.project_dir == tmp_path / "project"


# Agents


def test_the_mistakes_of_all_sources_are_reported_together(load: Load) -> None:
    error = refused(
        load,
        "agents:\n  a: {toolz: [], autostart: 3}\n  b: {model: '${UNSET}'}\n",
        user="plugin: {}\n",
        environ={"DSH_SAEF": "1"},
        overrides=["foo=1"],
    )

    lines = str(error).splitlines()
    assert lines[0] == "6 mistakes in the configuration"
    assert len(lines) == 7
    for words in ("DSH_SAEF", "-s foo", "config.yaml:1:1: plugin", "dsh.yaml:3:7: agents.b.model"):
        assert any(words in line for line in lines)


def test_an_untrusted_file_is_named_as_a_reason(load: Load) -> None:
    config = load("providers: {x: {base_url: http://x}}", trusted=False)

    assert "`dsh trust` makes its providers count" in (missing_model_error(config, {}).remedy or "")


@pytest.mark.parametrize(
    ("text", "agent"),
    [
        ("agents: {only: {}}", "only"),
        ("agents: {a: {}, default: {}}", "default"),
        ("agents: {a: {}, b: {}}", None),
        ("agents: {a: {}, b: {}}\ndefault_agent: b", "b"),
    ],
)
def test_the_default_agent_is_named_or_the_only_one(
    load: Load, text: str, agent: str | None
) -> None:
    assert load(text).default_agent == agent


def test_importing_the_data_imports_no_parser() -> None:
    program = (
        "import sys, dsh_core.config, dsh_core.config.model\n"
        "found = {'yaml', 'pydantic', 'pydantic_settings', 'platformdirs'} & set(sys.modules)\n"
        "assert not found, found\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
