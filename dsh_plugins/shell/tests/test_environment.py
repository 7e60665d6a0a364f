"""Which variables a command gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsh_core import Secrets
from dsh_shell.environment import ambient_environment, command_environment, names_secret


def environment(
    ambient: dict[str, str], *, keep: tuple[str, ...] = (), secrets: tuple[str, ...] = ()
) -> dict[str, str]:
    return command_environment(
        ambient,
        keep=keep,
        holds_secret=Secrets(secrets).found_in,
        session_id="s-1",
        cwd=Path("/work"),
    )


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY",
        "api_key",
        "apiKey",
        "APIKEY",
        "AWS_SECRET_ACCESS_KEY",
        "GITHUB_TOKEN",
        "SECRETS",
        "DB_PASSWORD",
        "DbPassword2",
        "MYSQL_PASSWD",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "KEY_1",
        "my.token",
    ],
)
def test_a_name_with_a_secret_word_is_left_out(name: str) -> None:
    assert names_secret(name)
    assert name not in environment({name: "x"})


@pytest.mark.parametrize(
    "name", ["PATH", "HOME", "KEYBOARD", "MONKEY", "TOKENIZERS_PARALLELISM", "PWD", "SSH_AUTH_SOCK"]
)
def test_other_names_are_passed_on(name: str) -> None:
    assert not names_secret(name)
    assert name in environment({name: "x"})


def test_a_value_the_harness_uses_is_left_out_whatever_its_name() -> None:
    ambient = {"A": "hunter22", "URL": "https://me:hunter22@host", "B": "other"}
    passed = environment(ambient, secrets=("hunter22",))
    assert passed.keys() & ambient.keys() == {"B"}


def test_a_short_secret_is_only_recognised_whole() -> None:
    passed = environment({"A": "x", "PATH": "/usr/x"}, secrets=("x", ""))
    assert "A" not in passed
    assert passed["PATH"] == "/usr/x"


def test_names_to_keep_are_kept_whatever_they_hold() -> None:
    ambient = {"NPM_TOKEN": "hunter22"}
    assert environment(ambient, keep=("NPM_TOKEN",), secrets=("hunter22",))["NPM_TOKEN"]


def test_programs_are_told_to_be_quiet_and_where_they_are() -> None:
    ambient = {"TERM": "xterm", "PAGER": "less", "FORCE_COLOR": "3", "OLDPWD": "/old", "PWD": "/p"}
    assert environment(ambient) == {
        "NO_COLOR": "1",
        "TERM": "dumb",
        "PAGER": "cat",
        "GIT_PAGER": "cat",
        "GIT_TERMINAL_PROMPT": "0",
        "DSH_SESSION_ID": "s-1",
        "DSH_CWD": "/work",
        "PWD": "/work",
    }


def test_the_ambient_environment_is_read_as_utf_8(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACE", "北京")
    assert ambient_environment()["PLACE"] == "北京"


@pytest.mark.parametrize("name", ["BASH_ENV", "ENV", "CDPATH", "PS4", "BASH_FUNC_ls%%"])
def test_what_makes_bash_run_something_else_is_left_out(name: str) -> None:
    assert name not in environment({name: "() { echo else; }"})
    assert name in environment({name: "x"}, keep=(name,))
