"""The format of `dsh.yaml`: what each key means, and what it may hold.

Sections of plugins are passed on as written; each plugin's own `Settings` judges them. The text
under a field is its description in `dsh config schema`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    SecretStr,
    StrictBool,
    StrictInt,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from dsh_core.llm.adapter import ReasoningPolicy

WANTED: Final = "wanted"
"""Type of the errors that `wanted` makes."""


def wanted(what: str, remedy: str) -> PydanticCustomError:
    """Make an error that says what a value must be, and what to do."""
    return PydanticCustomError(WANTED, "{what} is wanted", {"what": what, "remedy": remedy})


def url_problem(text: str) -> str | None:
    """Say what is wrong with the address of an endpoint; None = nothing."""
    try:
        parts = urlsplit(text)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        usable = False
    return None if usable else "an address that starts with http:// or https://"


def _nothing_is_empty(value: object) -> object:
    return {} if value is None else value


def _flag(value: object) -> object:
    if value in ("true", "false"):
        return value == "true"
    return value


def _number(value: object) -> object:
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,15}", value):
        return int(value)
    return value


def _url(text: str) -> str:
    problem = url_problem(text)
    if problem is not None:
        raise wanted(problem, "Write something like https://api.deepseek.com.")
    return text


def _plugin_section(value: object) -> object:
    if value is None or value is True:
        return {}
    if value is False or isinstance(value, dict):
        return value
    raise wanted(
        "false, true or a mapping of settings",
        "Write it out: a variable or a text cannot switch a plugin on or off.",
    )


def _provider_name(name: str) -> str:
    if not name or "/" in name or name != name.strip():
        raise wanted("a name without `/` and blanks", "Rename it: routes are PROVIDER/MODEL.")
    return name


Flag = Annotated[StrictBool, BeforeValidator(_flag)]
Count = Annotated[StrictInt, Field(ge=1), BeforeValidator(_number)]
Url = Annotated[str, AfterValidator(_url)]
Parameters = Annotated[dict[str, Any], BeforeValidator(_nothing_is_empty)]
ProviderName = Annotated[str, AfterValidator(_provider_name)]
PluginSection = Annotated[
    Any,
    PlainValidator(_plugin_section),
    WithJsonSchema({"type": ["object", "boolean", "null"]}),
]
PluginSections = Annotated[dict[str, PluginSection], BeforeValidator(_nothing_is_empty)]


class Section(BaseModel):
    """What all sections share: unknown keys are refused, values are never shown by pydantic."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class ModelSection(Section):
    """What is known of one model."""

    context_window_tokens: Count | None = None
    """Size of the model's window in tokens. Unknown by default: no plugin may then act on how full
    it is, and the provider's own error says when it is."""

    reasoning: ReasoningPolicy = "auto"
    """Whether earlier reasoning is sent back. `auto` sends what belongs to tool calls, which
    DeepSeek's thinking mode requires, and drops the rest, which costs tokens and helps nobody."""

    parameters: Parameters = {}
    """Wire parameters of every request to this model, such as `temperature: 0.2`. Empty by default:
    the provider's own defaults hold."""


class ProviderSection(Section):
    """Where models are reached. Further keys are options of the adapter."""

    model_config = ConfigDict(extra="allow")

    adapter: str = "openai_chat"
    """The wire format. OpenAI's Chat Completions by default, which nearly every endpoint speaks."""

    base_url: Url | None = None
    """Address that the adapter's paths are added to. By default the adapter's own, or that of a
    provider dsh knows by its name."""

    api_key: SecretStr | None = None
    """The key, best as `${NAME}`. None by default: a local endpoint needs none."""

    models: Annotated[
        dict[str, Annotated[ModelSection, BeforeValidator(_nothing_is_empty)]],
        BeforeValidator(_nothing_is_empty),
    ] = {}
    """What is known of its models, by name. Others may be used too; the first one is the default of
    agents that name none."""


class AgentSection(Section):
    """An agent: a model, a prompt, tools."""

    model: str | None = None
    """The route `provider/model`. By default the first configured model."""

    system_prompt: str = ""
    """The agent's own part of the system text; plugins add theirs."""

    tools: list[str] | None = None
    """Names of the tools it may use. By default all; an empty list gives none."""

    plugins: PluginSections = {}
    """Plugins it switches off (`NAME: false`), and settings merged onto the harness's."""

    parameters: Parameters = {}
    """Wire parameters of its requests, stronger than the model's. Empty by default."""

    stream: Flag = True
    """Whether replies are asked for as a stream. On by default: text is shown as it comes, and a
    silent connection is noticed early. `false` is for endpoints that cannot stream."""

    autostart: Flag = False
    """Whether it is created when the harness starts. Off by default: an agent that nobody talks to
    only costs memory."""


class ConfigFile(Section):
    """Configuration of dsh: models, agents, plugins."""

    default_agent: str | None = None
    """The agent `dsh run` uses without `-a`. By default the one named `default`, or the only
    one."""

    providers: Annotated[
        dict[ProviderName, Annotated[ProviderSection, BeforeValidator(_nothing_is_empty)]],
        BeforeValidator(_nothing_is_empty),
    ] = {}
    """Where models are reached, by the name that routes begin with. Without any, DEEPSEEK_API_KEY
    or OPENAI_API_KEY in the environment gives one."""

    agents: Annotated[
        dict[str, Annotated[AgentSection, BeforeValidator(_nothing_is_empty)]],
        BeforeValidator(_nothing_is_empty),
    ] = {}
    """Agents by name. Without any there is one, `default`."""

    plugins: PluginSections = {}
    """Settings of plugins by name; `false` switches one off. The order is the asked order."""

    autoload: StrictBool = True
    """Whether installed plugins are on without being named here. On by default: installed means
    on."""
