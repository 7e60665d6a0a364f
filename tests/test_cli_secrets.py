"""No secret of a provider leaves `dsh`: not by the endpoint's words, nor by a command's output."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest
from program import Shell
from wire_server import WireServer, plain

from dsh_core import ConfigError, Harness, HarnessConfig, Layer, hookimpl
from dsh_core.cli.logs import start_log
from dsh_core.testing import behaviours as model
from dsh_core.testing.model_server import ModelServer

KEY = "sk-test-KEYTEXT-0123456789"
HEADER = "gateway-HEADTEXT-42"
VARIABLE = "team-VARTEXT-4242"
PASSWORD = "p@ss/PASSTEXT"
QUERY = "QUERYTEXT-0123"
TEXTS = ("KEYTEXT", "HEADTEXT", "VARTEXT", "PASSTEXT", "QUERYTEXT")

CONFIG = """\
providers:
  lan:
    base_url: URL
    api_key: ${{LAN}}
    headers: {{X-Gateway-Auth: Bearer HEADER, X-Team: '${{TEAM_TOKEN}}', X-Title: plain-title}}
    models: {{m: {{}}}}
""".replace("{{", "{").replace("}}", "}")

SNOOP = (
    "env; tr '\\0' '\\n' < /proc/$PPID/environ; env | base64; echo x-$INNOCENT-x; "
    "echo plain-title $PLAIN"
)


def address(url: str) -> str:
    return url.replace("://", f"://me:{quote(PASSWORD, safe='')}@") + f"?key={QUERY}&v=1"


def configure(dsh: Shell, url: str) -> None:
    dsh.write("lan.yaml", CONFIG.replace("URL", address(url)).replace("HEADER", HEADER))
    dsh.env |= {"LAN": KEY, "TEAM_TOKEN": VARIABLE}
    dsh.env |= {"INNOCENT": HEADER, "ALSO": address(url), "BASIC": base64_of(f"me:{PASSWORD}")}
    dsh.env |= {"TEAM_COPY": f"x{VARIABLE}", "PLAIN": "passed-on"}


def base64_of(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def written(dsh: Shell) -> str:
    return "".join(path.read_text() for path in dsh.home.rglob("*.log"))


def test_a_command_finds_no_secret_of_a_provider(dsh: Shell) -> None:
    script = [
        model.reply(calls=[model.call("bash", {"command": SNOOP})]),
        model.reply("Done."),
    ]
    with ModelServer.in_thread(script) as server:
        configure(dsh, server.base_url)
        done = dsh("run", "-c", "lan.yaml", "-p", "no:permission", "--json", "Go.")
        asked = json.dumps([request.body for request in server.requests])
    assert "Done." in done.stdout, done.stderr
    assert "passed-on" in asked
    for text in (*TEXTS, base64_of(f"me:{PASSWORD}")):
        assert text not in asked
        assert text not in done.stdout + done.stderr + written(dsh)


@contextmanager
def echoing(words: str, request_id: str) -> Iterator[str]:
    """An endpoint that refuses with what it was told, in words and in the request's id."""
    body = {"error": {"message": words}}
    answers = [
        plain(body, "503 X", headers=[f"x-request-id: {request_id}", "retry-after: 0"])
        for _ in range(20)
    ]
    ready, url = threading.Event(), []
    loop = asyncio.new_event_loop()

    async def serve(stop: asyncio.Event) -> None:
        async with WireServer(*answers) as server:
            url.append(server.url)
            ready.set()
            await stop.wait()

    stop = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(serve(stop)))
    thread.start()
    ready.wait()
    try:
        yield url[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


@pytest.mark.parametrize("as_json", [True, False])
def test_what_an_endpoint_repeats_is_written_nowhere(dsh: Shell, as_json: bool) -> None:
    said = [KEY, HEADER, VARIABLE, PASSWORD, quote(PASSWORD, safe=""), QUERY]
    words = " ".join([*said, *map(base64_of, said)])
    with echoing(words, f"{KEY}") as url:
        configure(dsh, url)
        done = dsh("run", "-c", "lan.yaml", *(["--json"] if as_json else []), "Go.")
    shown = done.stdout + done.stderr + written(dsh)
    assert "503" in shown
    assert written(dsh)
    for text in (*TEXTS, *(base64_of(text)[:-4] for text in said)):
        assert text not in shown


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_config_show_hides_what_an_address_and_headers_hold(dsh: Shell, options: list[str]) -> None:
    configure(dsh, "https://gateway.test/v1")
    done = dsh("config", "show", *options, "-c", "lan.yaml")
    assert "https://me:***@gateway.test/v1?key=***&v=***" in done.stdout, done.stderr
    assert "plain-title" in done.stdout
    for text in TEXTS:
        assert text not in done.stdout + done.stderr


def test_config_check_and_mistakes_hide_them_too(dsh: Shell) -> None:
    configure(dsh, "https://gateway.test:no-port/v1")
    checked = dsh("config", "check", "-c", "lan.yaml")
    configure(dsh, "https://gateway.test/v1")
    done = dsh("run", "-c", "lan.yaml", "--model", "lan/m", "-s", "providers.lan.nothing=1", "Go.")
    for text in TEXTS:
        assert text not in checked.stdout + checked.stderr + done.stdout + done.stderr


def test_the_log_is_for_its_user_alone_and_holds_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "dsh.log"
    path.touch(mode=0o644)
    logger = logging.getLogger("dsh")
    before = logger.handlers, logger.propagate, logger.level, logging.raiseExceptions
    harness = Harness(HarnessConfig())
    harness.secrets.add(KEY)
    start_log({"DSH_LOG": str(path)}, harness.secrets.scrub)
    try:
        raise ValueError(KEY)
    except ValueError:
        logging.getLogger("dsh.deep").exception("with %s", KEY)
    finally:
        for handler in logger.handlers:
            handler.close()
        logger.handlers, logger.propagate, logger.level, logging.raiseExceptions = before
    assert "with ***" in path.read_text()
    assert "ValueError: ***" in path.read_text()
    assert KEY not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_plugin_that_does_not_start_says_no_secret(at_once: bool) -> None:
    class Connects:
        @dataclass(frozen=True)
        class Settings:
            token: str = ""

        def __init__(self, settings: Settings):
            self.settings = settings
            if at_once:
                raise ValueError(settings.token)

        @hookimpl
        async def harness_start(self) -> None:
            raise ValueError(f"cannot connect with {self.settings.token}")

    layer = Layer("code", {"token": KEY})
    harness = Harness(HarnessConfig(plugins={"connects": (layer,)}), plugins={"connects": Connects})
    with pytest.raises(ConfigError) as raised:
        await harness.start()
    assert "***" in str(raised.value)
    assert KEY not in str(raised.value) + repr(raised.value) + repr(harness.config)
