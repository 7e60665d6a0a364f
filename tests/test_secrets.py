"""What must never be written is found in whatever form it stands in a text."""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from pydantic import BaseModel, SecretBytes, SecretStr

from dsh_core import AgentDefinition, Harness, HarnessConfig, ProviderConfig, Secret, Secrets
from dsh_core.secrets import secrets_in, secrets_in_url, shown_url

KEY = 'sk-"live"/12 34+56=é'


@pytest.mark.parametrize(
    "text",
    [
        KEY,
        f"({KEY})",
        json.dumps({"text": KEY}),
        json.dumps({"text": KEY}, ensure_ascii=False),
        quote(KEY, safe=""),
        quote_plus(KEY),
        quote(KEY, safe="").lower().replace("sk-", "sk-"),
        f"https://host/?q={quote_plus(KEY)}&x=1",
    ],
)
def test_a_secret_is_blotted_out_in_every_form(text: str) -> None:
    scrubbed = Secrets([KEY]).scrub(text)
    assert "live" not in scrubbed
    assert "***" in scrubbed


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize("before", ["", "a", "ab", "user:", "Bearer "])
@pytest.mark.parametrize("after", ["", "z", "zz"])
def test_a_secret_is_found_inside_what_was_put_in_base64(
    encode: Any, before: str, after: str
) -> None:
    code = encode(f"{before}{KEY}{after}".encode()).decode()
    scrubbed = Secrets([KEY]).scrub(code)
    left = scrubbed.replace("***", "")
    assert len(left) <= len(code) - len(KEY.encode()), scrubbed


def test_json_that_was_scrubbed_is_still_json() -> None:
    line = json.dumps({"a": [KEY, f"x{KEY}"], KEY: None})
    assert json.loads(Secrets([KEY]).scrub(line)) == {"a": ["***", "x***"], "***": None}


def test_of_two_secrets_the_one_around_the_other_goes_first() -> None:
    secrets = Secrets(["hunter22", "me:hunter22@home"])
    assert secrets.scrub("me:hunter22@home hunter22") == "*** ***"


@pytest.mark.parametrize("text", ["hunter2", "", "   ", "anything", "not-needed", "lm-studio"])
def test_what_would_stand_in_text_by_chance_stays(text: str) -> None:
    assert Secrets([text]).scrub(f"Is {text} there?") == f"Is {text} there?"


def test_a_short_secret_is_recognised_as_a_whole_value() -> None:
    secrets = Secrets([" hunter2\n"])
    assert secrets.found_in("hunter2")
    assert not secrets.found_in("hunter2 and more")
    assert not Secrets([""]).found_in("")


def test_blanks_around_a_secret_are_no_part_of_it() -> None:
    assert Secrets(["hunter22\n"]).scrub("[hunter22]") == "[***]"


def test_an_excerpt_loses_what_begins_like_a_secret_or_looks_like_a_masked_key() -> None:
    secrets = Secrets(["sk-live-0123456789"])
    assert secrets.scrub_excerpt("sk-live-01234, key sk-a****wxyz") == "***, key ***"
    assert secrets.scrub("sk-live-01234") == "sk-live-01234"


def test_a_list_of_secrets_shows_none() -> None:
    assert "hunter22" not in repr(Secrets(["hunter22"]))


# ------------------------------------------------------------------------------ addresses


@pytest.mark.parametrize(
    ("url", "secrets", "shown"),
    [
        (
            "https://me:p%40ss%2Fword@host:1/v1?api-version=2&key=ab%20c#top",
            {"p@ss/word", "p%40ss%2Fword", "me:p@ss/word", "me:p%40ss%2Fword", "ab c"},
            "https://me:***@host:1/v1?api-version=***&key=***",
        ),
        ("https://token@host/", {"token"}, "https://***@host/"),
        ("https://host/?0123456789", set(), "https://host/?***"),
        ("postgresql://me:hunter22@db/sessions", {"hunter22", "me:hunter22"}, None),
        ("https://host/v1", set(), "https://host/v1"),
        ("see https://me:hunter22@host", set(), "see https://me:hunter22@host"),
        ("https://[broken", set(), "***"),
        ("text", set(), "text"),
        ("me:hunter22@host/v1", set(), "me:***@host/v1"),
        ("git@host:path", set(), "git@host:path"),
    ],
)
def test_an_address_tells_its_secrets_and_is_shown_without(
    url: str, secrets: set[str], shown: str | None
) -> None:
    assert set(secrets_in_url(url)) == secrets
    assert shown_url(url) == (shown or "postgresql://me:***@db/sessions")


# ------------------------------------------------------------------------------- settings


@dataclasses.dataclass(frozen=True, slots=True)
class Inner:
    password: str = "inner-password"
    name: str = "plain text"


class Model(BaseModel):
    key: SecretStr
    raw: SecretBytes = SecretBytes(b"raw-secret")
    keys: list[SecretStr] = []
    inner: Inner = Inner()
    headers: Mapping[str, str] = {}
    token: str = ""
    url: str = ""
    nothing: None = None


def test_secrets_of_settings_are_found_wherever_they_stand() -> None:
    settings = Model(
        key=SecretStr("one-secret"),
        keys=[SecretStr("in-a-list")],
        headers={"X-Auth": "Bearer header-secret", "Accept": "text/plain"},
        token="token-text",
        url="postgresql://me:hunter22@db/",
    )
    assert set(secrets_in({"deep": [settings], "own": Secret("own-secret")})) == {
        *("one-secret", "raw-secret", "in-a-list", "inner-password", "own-secret", "token-text"),
        *("Bearer header-secret", "header-secret", "hunter22", "me:hunter22"),
    }


def test_lines_of_a_private_key_are_secrets_but_not_its_frame() -> None:
    pem = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG\n-----END PRIVATE KEY-----"
    assert set(secrets_in(SecretStr(pem))) == {pem, "MIIEvQIBADANBgkqhkiG"}


# -------------------------------------------------------------------------------- harness

PROVIDER = ProviderConfig(
    name="gateway",
    adapter="openai_chat",
    base_url="https://me:url-password@gateway.test/v1?key=query-secret",
    api_key=Secret("provider-key"),
    options={"headers": {"X-Key": "header-secret", "X-Team": "some-team"}},
)


class Keeper:
    """A plugin with secrets in its settings."""

    @dataclasses.dataclass(frozen=True, slots=True)
    class Settings:
        dsn: SecretStr

    def __init__(self, settings: Settings):
        self.settings = settings


async def test_a_harness_knows_the_secrets_of_providers_agents_and_plugins() -> None:
    config = HarnessConfig(
        providers={"gateway": PROVIDER},
        agents={
            "a": AgentDefinition("a", parameters={"extra": {"api_key": "parameter-secret"}}),
            "b": AgentDefinition("b", plugins={"keeper": {"dsn": "override-dsn"}}),  # type: ignore[dict-item]
        },
        plugins={"keeper": {"dsn": "keeper-dsn"}},  # type: ignore[dict-item]
        autoload=False,
    )
    harness = Harness(config, plugins={"keeper": Keeper})
    said = (
        "url-password query-secret provider-key header-secret parameter-secret "
        "keeper-dsn override-dsn late-secret"
    )
    assert harness.secrets.scrub(said).count("***") == 5
    async with harness:
        harness.agents.create("b")
        late = ProviderConfig("late", "openai_chat", api_key=Secret("late-secret"))
        dispose = harness.llm.register_provider(late, owner="test")
        dispose()
        assert harness.secrets.scrub(said) == " ".join(["***"] * 8)
        assert harness.secrets.scrub("some-team") == "some-team"


def test_a_provider_shows_no_secret() -> None:
    assert "secret" not in repr(PROVIDER)
    assert "password" not in repr(PROVIDER)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("nothing", 0),
        ("ends with a-long-", 7),
        ("ends with a-long-secre", 12),
        ("a-long-secret", 0),
        ("", 0),
    ],
)
def test_the_beginning_of_a_secret_at_the_end_of_a_text_is_measured(text: str, count: int) -> None:
    assert Secrets(["a-long-secret"]).begun_at_end(text) == count
