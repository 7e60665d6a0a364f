"""What is said about a file that does not fit the format."""

from __future__ import annotations

import pytest
from configuring import Load, refused

from dsh_core.secret import Secret


@pytest.mark.parametrize(
    ("text", "where", "message", "remedy"),
    [
        (
            "agents:\n  a:\n    permisions: {deny: [x]}\n",
            "dsh.yaml:3:5: agents.a.permisions",
            "unknown key `permisions`",
            "Allowed: model, system_prompt, tools, plugins, parameters, stream, autostart. "
            "Settings of a plugin belong in agents.a.plugins.permission.",
        ),
        (
            "permisions:\n  deny: [x]\n",
            "dsh.yaml:1:1: permisions",
            "unknown key `permisions`",
            "Settings of a plugin belong in plugins.permission.",
        ),
        (
            "permission:\n  deny: [x]\n",
            "dsh.yaml:1:1: permission",
            "unknown key `permission`",
            "Settings of a plugin belong in plugins.permission.",
        ),
        ("defualt_agent: a\n", "dsh.yaml:1:1: defualt_agent", "unknown key", "`default_agent`?"),
        (
            "tools: [read]\n",
            "dsh.yaml:1:1: tools",
            "unknown key `tools`",
            "belongs in agents.NAME.",
        ),
        (
            "agents: {a: {context_window_tokens: 5}}\n",
            "dsh.yaml:1:14: agents.a.context_window_tokens",
            "unknown key",
            "belongs in providers.NAME.models.NAME.",
        ),
        (
            "agents:\n  a:\n    prompt:\n      tools: [read]\n",
            "dsh.yaml:3:5: agents.a.prompt",
            "unknown key `prompt`",
            "Did you mean `system_prompt`?",
        ),
        (
            "agents: {a: {tools: read}}\n",
            "dsh.yaml:1:14: agents.a.tools",
            "a list is wanted, found 'read'",
            "Write it in brackets: [one, two].",
        ),
        (
            "agents: {a: {system_prompt: true}}\n",
            "dsh.yaml:1:14: agents.a.system_prompt",
            "text is wanted, found true",
            "Write it in quotes.",
        ),
        (
            "agents: {a: {system_prompt: }}\n",
            "dsh.yaml:1:14: agents.a.system_prompt",
            "text is wanted, found nothing",
            "Write '' for empty text, or remove the key.",
        ),
        (
            "agents: {a: {autostart: 1}}\n",
            "dsh.yaml:1:14: agents.a.autostart",
            "a boolean is wanted, found 1",
            "Write true or false, without quotes.",
        ),
        (
            "agents: {a: {autostart: 'yes'}}\n",
            "dsh.yaml:1:14: agents.a.autostart",
            "a boolean is wanted, found 'yes'",
            "Write true or false, without quotes.",
        ),
        (
            "autoload: ${X:-false}\n",
            "dsh.yaml:1:1: autoload",
            "a boolean is wanted, found text that is not shown",
            "Write true or false, without quotes.",
        ),
        (
            "plugins:\n  shell: ${X:-false}\n",
            "dsh.yaml:2:3: plugins.shell",
            "false, true or a mapping of settings is wanted",
            "a variable or a text cannot switch a plugin on or off.",
        ),
        (
            "agents: [a]\n",
            "dsh.yaml:1:1: agents",
            "a mapping is wanted, found a list",
            "key: value",
        ),
        (
            "agents: {a: b}\n",
            "dsh.yaml:1:10: agents.a",
            "a mapping is wanted, found 'b'",
            "key: value",
        ),
        (
            "providers: {a/b: {}}\n",
            "dsh.yaml:1:13: providers.a/b",
            "a name without `/`",
            "Rename it",
        ),
        (
            "providers: {x: {base_ulr: http://x}}\n",
            "dsh.yaml:1:17: providers.x.base_ulr",
            "unknown key `base_ulr`",
            "Did you mean `base_url`?",
        ),
        (
            "providers: {x: {api-key: k}}\n",
            "dsh.yaml:1:17: providers.x.api-key",
            "unknown key `api-key`",
            "Did you mean `api_key`?",
        ),
        (
            "providers: {x: {base_url: localhost:80}}\n",
            "dsh.yaml:1:17: providers.x.base_url",
            "an address that starts with http:// or https:// is wanted, found 'localhost:80'",
            "Write something like https://",
        ),
        (
            "providers: {x: {models: {m: {reasoning: snd}}}}\n",
            "dsh.yaml:1:30: providers.x.models.m.reasoning",
            "one of auto, send, drop is wanted, found 'snd'",
            "Did you mean `send`?",
        ),
        (
            "providers: {x: {base_url: 'http://[::1'}}\n",
            "dsh.yaml:1:17: providers.x.base_url",
            "an address that starts with http:// or https:// is wanted",
            "Write something like https://",
        ),
        (
            f"agents: {{a: {{tools: {'x' * 50}}}}}\n",
            "dsh.yaml:1:14: agents.a.tools",
            f"found '{'x' * 40}…'",
            "Write it in brackets",
        ),
        (
            "agents: {a: {model: {name: m}}}\n",
            "dsh.yaml:1:14: agents.a.model",
            "text is wanted, found a mapping",
            "Write a single text.",
        ),
        *(
            (
                f"providers: {{x: {{models: {{m: {{context_window_tokens: {value}}}}}}}}}\n",
                "dsh.yaml:1:30: providers.x.models.m.context_window_tokens",
                "a whole number of at least 1 is wanted",
                "Write it in digits only.",
            )
            for value in ("0", "true", "1.5", "128K", "'-1'", "[1]")
        ),
        (
            "agents: {a: {model: deepseek-chat}}\nproviders: {x: {models: {deepseek-chat: }}}\n",
            "dsh.yaml:1:14: agents.a.model",
            "a route is wanted",
            "Write PROVIDER/MODEL, x/deepseek-chat.",
        ),
        (
            "agents: {a: {model: depseek/chat}}\n",
            "dsh.yaml:1:14: agents.a.model",
            "unknown provider `depseek`",
            "Did you mean `deepseek`?",
        ),
        (
            "agents: {a: {model: local/m}}\nproviders: {lan: {}}\n",
            "dsh.yaml:1:14: agents.a.model",
            "unknown provider `local`",
            "Known: lan, deepseek, openai.",
        ),
        (
            "agents: {coder: {}, reviewer: {}}\ndefault_agent: codre\n",
            "dsh.yaml:2:1: default_agent",
            "unknown agent `codre`",
            "Did you mean `coder`?",
        ),
        ("default_agent: x\n", "dsh.yaml:1:1: default_agent", "unknown agent", "Known: default."),
    ],
)
def test_a_mistake_is_named_by_place_key_and_what_to_do(
    load: Load, text: str, where: str, message: str, remedy: str
) -> None:
    error = refused(load, text)

    assert error.where == where
    assert message in error.message
    assert remedy in (error.remedy or "")


def test_a_variables_text_is_never_in_a_message(load: Load) -> None:
    error = refused(
        load,
        "providers: {x: {base_url: '${S}', models: '${S}'}}\n"
        "agents: {a: {model: '${S}', tools: '${S}', autostart: '${S}', plugins: {p: '${S}'}}}\n"
        "default_agent: '${S}'\nautoload: '${S}'\n",
        environ={"S": "sk-secret/1"},
    )

    assert len(str(error).splitlines()) == 7
    assert "sk-secret" not in str(error)
    later = refused(
        load, "agents: {a: {model: '${S}'}}\ndefault_agent: '${S}'\n", environ={"S": "sk-secret/1"}
    )
    assert "sk-secret" not in str(later)


def test_a_key_is_not_shown_even_where_it_is_wrong(load: Load) -> None:
    config = load("providers: {x: {api_key: sk-secret, base_url: http://x}}")

    assert "sk-secret" not in repr(config)


def test_a_number_stands_as_written_where_text_is_wanted(load: Load) -> None:
    config = load(
        "providers: {x: {adapter: 1.10, api_key: 1234567890123456789012, base_url: http://x}}\n"
        "agents: {a: {system_prompt: 2.50, tools: [7, 1.0]}}\n",
    )

    assert config.providers["x"].adapter == "1.10"
    assert config.providers["x"].api_key == Secret("1234567890123456789012")
    assert config.agents["a"].system_prompt == "2.50"
    assert config.agents["a"].tools == ("7", "1.0")


def test_interpolated_text_is_converted_where_a_number_or_boolean_is_wanted(load: Load) -> None:
    config = load(
        "providers: {x: {models: {m: {context_window_tokens: '${N}'}}}}\n"
        "agents: {a: {autostart: '${FLAG:-true}'}}\n",
        environ={"N": "4096"},
    )

    assert config.providers["x"].model("m").context_window_tokens == 4096
    assert config.agents["a"].autostart is True
