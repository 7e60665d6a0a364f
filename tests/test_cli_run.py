"""`dsh run`, through the installed console script and over real HTTP."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
from distributions import distribution
from program import Shell

from dsh_core.testing import behaviours as model
from dsh_core.testing.model_server import ModelServer

KEY = "sk-test-KEYTEXT"
SNOOP = "env; echo $OPENAI_API_KEY; tr '\\0' '\\n' < /proc/$PPID/environ; ps -o args= -p $PPID"


def point_at(dsh: Shell, server: ModelServer) -> None:
    dsh.env |= {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.base_url}


def is_running(pid: int) -> bool:
    """Whether a process runs; one that ended and waits to be reaped does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_for(path: Path, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.02)


def test_a_key_in_the_environment_is_enough(dsh: Shell) -> None:
    with ModelServer.in_thread([model.reply("Hello.")], strict=True) as server:
        point_at(dsh, server)
        done = dsh("run", "Say hello.")

    assert (done.returncode, done.stdout) == (0, "Hello.\n")
    assert server.requests[0].body["messages"][-1] == {"role": "user", "content": "Say hello."}
    assert server.problems == []


def test_an_agent_uses_files_and_shell_to_do_a_job(dsh: Shell) -> None:
    dsh.write("count.txt", "one\ntwo\n")
    script = [
        model.reply("I look.", calls=[model.call("read", {"file_path": "count.txt"})]),
        model.reply(
            calls=[
                model.call(
                    "edit",
                    {"file_path": "count.txt", "old_string": "two", "new_string": "three"},
                )
            ]
        ),
        model.reply(calls=[model.call("bash", {"command": "wc -l < count.txt; pwd"})]),
        model.reply("Done."),
    ]
    with ModelServer.in_thread(script, strict=True) as server:
        point_at(dsh, server)
        done = dsh("run", "--yes", "Change two to three.")

    assert (done.returncode, done.stdout) == (0, "Done.\n")
    assert (dsh.work / "count.txt").read_text() == "one\nthree\n"
    assert str(dsh.work) in json.dumps(server.requests[3].body)
    assert "→ edit" in done.stderr
    assert server.problems == []


def test_narration_between_tool_calls_is_not_part_of_the_result(dsh: Shell) -> None:
    script = [
        model.reply("I look.", calls=[model.call("bash", {"command": "true"})]),
        model.reply("Done."),
    ]
    with ModelServer.in_thread(script) as server:
        point_at(dsh, server)
        done = dsh("run", "Go.")

    assert done.stdout == "Done.\n"
    assert "I look." in done.stderr


def test_quiet_prints_the_answer_only(dsh: Shell) -> None:
    script = [
        model.reply("I look.", calls=[model.call("bash", {"command": "true"})]),
        model.reply("Done."),
    ]
    with ModelServer.in_thread(script) as server:
        point_at(dsh, server)
        done = dsh("run", "--quiet", "Go.")

    assert (done.stdout, done.stderr) == ("Done.\n", "")


def test_without_a_policy_plugin_that_is_said_once(dsh: Shell) -> None:
    look = model.call("bash", {"command": "true"})
    script = [model.reply(calls=[look, look]), model.reply(calls=[look]), model.reply("Done.")]
    with ModelServer.in_thread(script) as server:
        point_at(dsh, server)
        done = dsh("run", "-p", "no:permission", "Go.")

    assert done.stderr.count("no permission plugin") == 1


@pytest.mark.parametrize("arguments", [["run", "-"], ["run"]], ids=["dash", "pipe"])
def test_the_prompt_comes_from_standard_input(dsh: Shell, arguments: list[str]) -> None:
    with ModelServer.in_thread([model.reply("Read.")]) as server:
        point_at(dsh, server)
        done = dsh(*arguments, stdin="Größe\n".encode())

    assert done.stdout == "Read.\n"
    assert server.requests[0].body["messages"][-1]["content"].strip() == "Größe"


def test_a_prompt_that_is_not_utf8_still_runs(dsh: Shell) -> None:
    with ModelServer.in_thread([model.reply("Read.")]) as server:
        point_at(dsh, server)
        done = dsh("run", "-", stdin=b"caf\xe9")

    assert done.returncode == 0
    assert server.requests[0].body["messages"][-1]["content"] == "caf�"


def test_no_prompt_at_all_is_a_usage_error(dsh: Shell) -> None:
    done = dsh("run", stdin=b"  \n")

    assert done.returncode == 2
    assert "there is no prompt" in done.stderr


def test_json_mode_prints_events_and_nothing_else(dsh: Shell) -> None:
    script = [
        model.reply(calls=[model.call("bash", {"command": "echo loud; echo err >&2"})]),
        model.reply("Done."),
    ]
    with ModelServer.in_thread(script) as server:
        point_at(dsh, server)
        done = dsh("run", "--json", "Go.")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    events = [line for line in lines if "seq" in line]

    assert lines[0]["type"] == "dsh/header"
    assert lines[0]["version"] == 1
    assert lines[-1]["type"] == "dsh/result"
    assert lines[-1]["text"] == "Done."
    assert [event["seq"] for event in events] == list(range(len(events)))
    assert events[0]["type"] == "turn/start"
    assert events[-1] == {**events[-1], "type": "turn/end"}


def test_a_plugin_that_prints_does_not_spoil_json(dsh: Shell) -> None:
    site = dsh.work / "site"
    text = (
        "from dsh_core import hookimpl\n"
        "print('at import')\n"
        "@hookimpl\n"
        "async def agent_turn_start(turn):\n"
        "    print('in a hook')\n"
    )
    distribution(site, "loud", {"loud": "loud"}, loud=text)
    dsh.env["PYTHONPATH"] = str(site)
    with ModelServer.in_thread([model.reply("Done.")]) as server:
        point_at(dsh, server)
        done = dsh("run", "--json", "Go.")

    assert all(json.loads(line) for line in done.stdout.splitlines())
    assert "at import" in done.stderr
    assert "in a hook" in done.stderr


def test_json_mode_reports_what_kept_it_from_starting(dsh: Shell) -> None:
    done = dsh("run", "--json", "Go.")

    assert done.returncode == 2
    assert json.loads(done.stdout)["type"] == "dsh/error"
    assert "no model is configured" in json.loads(done.stdout)["message"]


def test_the_offline_model_needs_no_key(dsh: Shell) -> None:
    dsh.write(
        "dsh.yaml",
        "providers:\n  offline: {adapter: scripted, replies: [Hello.], models: {m: {}}}\n",
    )

    assert dsh("run", "-c", "dsh.yaml", "Hi").stdout == "Hello.\n"


def test_another_model_can_be_named(dsh: Shell) -> None:
    with ModelServer.in_thread([model.reply("Hi.")]) as server:
        point_at(dsh, server)
        dsh("run", "--model", "openai/other", "Hi")

    assert server.requests[0].body["model"] == "other"


def test_a_trace_names_who_did_what(dsh: Shell) -> None:
    script = [
        model.reply(calls=[model.call("bash", {"command": "true"})]),
        model.reply("Done."),
    ]
    with ModelServer.in_thread(script) as server:
        point_at(dsh, server)
        done = dsh("run", "--trace", "Hi")

    assert "trace agent_turn_continuation" in done.stderr
    assert "limits" in done.stderr


# ------------------------------------------------------------------------------ bad input


def test_the_key_is_never_printed(dsh: Shell) -> None:
    script = [
        model.reply(calls=[model.call("bash", {"command": SNOOP})]),
        model.auth_error(),
    ]
    with ModelServer.in_thread(script) as server:
        point_at(dsh, server)
        done = dsh("run", "--json", "Go.")
    shown = dsh("config", "show")
    logs = "".join(p.read_text() for p in dsh.home.rglob("*.log"))

    assert KEY not in done.stdout + done.stderr + shown.stdout + shown.stderr + logs
    assert KEY not in json.dumps([request.body for request in server.requests])


@pytest.mark.parametrize(
    ("behaviour", "code", "words"),
    [
        (model.auth_error(), 1, "AUTH"),
        (model.invalid_request("no such knob"), 1, "no such knob"),
        (model.quota_exceeded(), 1, "QUOTA"),
        (model.content_filter(), 1, "CONTENT_FILTER"),
        (model.wrong_content_type(), 1, "MALFORMED_RESPONSE"),
        (model.malformed_json("half"), 1, "MALFORMED_RESPONSE"),
    ],
    ids=["auth", "bad request", "quota", "filter", "html", "json"],
)
def test_a_refusing_endpoint_gives_one_message_and_no_retry(
    dsh: Shell, behaviour: model.Behaviour, code: int, words: str
) -> None:
    with ModelServer.in_thread([behaviour]) as server:
        point_at(dsh, server)
        done = dsh("run", "Go.")

    assert done.returncode == code
    assert words in done.stderr
    assert done.stderr.count("error: ") == 1
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert len(server.requests) == 1


def test_an_unreachable_endpoint_is_retried_and_then_named(dsh: Shell) -> None:
    dsh.env |= {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "http://127.0.0.1:9"}
    done = dsh(
        "run",
        *("-s", "plugins.retry.max_retries=2"),
        *("-s", "plugins.retry.initial_delay_seconds=0.01"),
        "Go.",
    )

    assert done.returncode == 1
    assert done.stderr.count("retry ") == 2
    assert "127.0.0.1:9" in done.stderr
    assert "Check base_url" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_stream_that_breaks_off_is_asked_for_again(dsh: Shell) -> None:
    script = [model.partial_disconnect("half an ans"), model.reply("The whole answer.")]
    with ModelServer.in_thread(script) as server:
        point_at(dsh, server)
        done = dsh("run", "-s", "plugins.retry.initial_delay_seconds=0.01", "Go.")

    assert (done.returncode, done.stdout) == (0, "The whole answer.\n")
    assert "retry 1" in done.stderr
    assert "half" not in json.dumps(server.requests[1].body)


def test_a_missing_key_is_said_before_any_request(dsh: Shell) -> None:
    done = dsh("run", "Go.")

    assert done.returncode == 2
    assert "DEEPSEEK_API_KEY" in done.stderr
    assert "OPENAI_API_KEY" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_broken_key_is_refused_without_showing_it(dsh: Shell) -> None:
    with ModelServer.in_thread() as server:
        point_at(dsh, server)
        dsh.env["OPENAI_API_KEY"] = "sk-sécret-KEYTEXT"
        done = dsh("run", "Go.")

    assert done.returncode == 2
    assert "KEYTEXT" not in done.stdout + done.stderr
    assert server.requests == []


def test_an_unknown_option_names_itself(dsh: Shell) -> None:
    done = dsh("run", "--jsno", "Go.")

    assert done.returncode == 2
    assert "--jsno" in done.stderr


def test_a_limit_ends_the_run_with_its_reason(dsh: Shell) -> None:
    looping = model.reply(calls=[model.call("bash", {"command": "true"})])
    with ModelServer.in_thread(default=looping) as server:
        point_at(dsh, server)
        done = dsh("run", "-s", "plugins.limits.max_steps=3", "Go.")

    assert done.returncode == 1
    assert "3 steps" in done.stderr
    assert len(server.requests) == 3


def test_a_locale_that_can_show_nothing_breaks_nothing(dsh: Shell) -> None:
    dsh.env |= {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    dsh.env["PYTHONIOENCODING"] = "ascii"
    with ModelServer.in_thread([model.reply("✓ 北京 🌍")]) as server:
        point_at(dsh, server)
        done = dsh("run", "Größe 北京")

    assert done.returncode == 0
    assert server.requests[0].body["messages"][-1]["content"] == "Größe 北京"


# -------------------------------------------------------------------------------- signals


def test_ctrl_c_aborts_the_turn_and_kills_what_it_started(dsh: Shell) -> None:
    command = "(trap '' INT TERM; echo $BASHPID > pid; touch started; sleep 300) & wait"
    with ModelServer.in_thread(
        [model.reply(calls=[model.call("bash", {"command": command})])]
    ) as server:
        point_at(dsh, server)
        off = ("-p", "no:permission", "-p", "no:sandbox")  # where processes have other numbers
        run = dsh.start("run", *off, "--json", "Go.")
        wait_for(dsh.work / "started")
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=30)
    events = [json.loads(line) for line in out.splitlines()]

    assert run.returncode == 130
    assert b"Traceback" not in err
    assert [e["data"]["reason"]["type"] for e in events if e["type"] == "turn/end"] == ["aborted"]
    assert [e["type"] for e in events].count("tool/result") == 1
    assert len(server.requests) == 1
    assert not is_running(int((dsh.work / "pid").read_text()))


def test_sigterm_ends_in_good_order(dsh: Shell) -> None:
    with ModelServer.in_thread([model.stall("begun")]) as server:
        point_at(dsh, server)
        run = dsh.start("run", "--json", "Go.")
        server.wait_until(lambda: len(server.requests) == 1)
        os.kill(run.pid, signal.SIGTERM)
        out, err = run.communicate(timeout=30)

    assert run.returncode == 143
    assert json.loads(out.splitlines()[-1])["type"] == "dsh/result"
    assert b"Traceback" not in err


def test_a_retried_failure_is_said_once_in_json(dsh: Shell) -> None:
    script = [model.server_error("down"), model.reply("Up.")]
    with ModelServer.in_thread(script) as server:
        point_at(dsh, server)
        delay = "plugins.retry.initial_delay_seconds=0.01"
        done = dsh("run", "--json", "-s", delay, "Go.")
    types = [json.loads(line)["type"] for line in done.stdout.splitlines()]

    assert types.count("llm/retry") == 1
    assert "dsh/error" not in types
    assert "Warning" not in done.stderr


@pytest.mark.parametrize(("text", "asked"), [("", True), ("agents: {a: {stream: false}}", False)])
def test_a_file_says_whether_replies_are_streamed(dsh: Shell, text: str, asked: bool) -> None:
    with ModelServer.in_thread([model.reply("Whole.")]) as server:
        point_at(dsh, server)
        done = dsh("run", "-c", str(dsh.write("mine.yaml", text)), "Go.")
    (request,) = server.requests

    assert (done.returncode, done.stdout) == (0, "Whole.\n")
    assert request.body.get("stream", False) is asked


def test_piped_text_joins_the_prompt_where_a_dash_stands(dsh: Shell) -> None:
    with ModelServer.in_thread([model.reply("Seen.")]) as server:
        point_at(dsh, server)
        dsh("run", "Explain this:", "-", stdin=b"x = 1\n")

    assert server.requests[0].body["messages"][-1]["content"] == "Explain this:\n\nx = 1\n"


def test_a_reader_that_leaves_ends_the_run(dsh: Shell) -> None:
    script = [
        model.reply(calls=[model.call("bash", {"command": "touch started; sleep 300"})]),
        model.reply("Never asked for."),
    ]
    with ModelServer.in_thread(script) as server:
        point_at(dsh, server)
        with dsh.start("run", "--json", "Go.") as run:
            assert run.stdout is not None
            assert run.stderr is not None
            assert run.stdout.readline().startswith(b'{"type":"dsh/header"')
            run.stdout.close()
            errors = run.stderr.read()
            code = run.wait(timeout=30)

    assert code == 1
    assert b"BrokenPipe" not in errors
    assert len(server.requests) <= 1


def test_what_a_plugin_prints_is_not_part_of_the_answer(dsh: Shell) -> None:
    site = dsh.work / "site"
    text = (
        "from dsh_core import hookimpl\n"
        "@hookimpl\n"
        "async def agent_turn_start(turn):\n"
        "    print('chatter')\n"
        "@hookimpl\n"
        "def cli_register(cli):\n"
        "    cli.add_option('--loud', action='store_true', help='Be loud.')\n"
    )
    distribution(site, "loud", {"loud": "loud"}, loud=text)
    dsh.env["PYTHONPATH"] = str(site)
    with ModelServer.in_thread([model.reply("Done.")]) as server:
        point_at(dsh, server)
        done = dsh("run", "Go.", "--loud")

    assert done.stdout == "Done.\n"
    assert "chatter" in done.stderr
    assert "--loud" in dsh("run", "--help").stdout


@pytest.mark.parametrize(
    "body",
    [
        "def agent_created(agent):\n    raise ValueError('not this one')\n",
        "def cli_register(cli):\n    raise ValueError('not this one')\n",
        "def session_validate(session, event):\n    raise ValueError('not this one')\n",
        "def harness_start(harness):\n    raise ValueError('not this one')\n",
        "def session_created(session):\n    raise ValueError('not this one')\n",
    ],
    ids=lambda body: body[4 : body.index("(")],
)
def test_a_plugin_that_raises_outside_a_turn_is_one_message(dsh: Shell, body: str) -> None:
    site = dsh.work / "site"
    info = site / "bad-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bad\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[dsh]\nbad = bad\n")
    (site / "bad.py").write_text(f"from dsh_core import hookimpl\n@hookimpl\n{body}")
    dsh.env["PYTHONPATH"] = str(site)
    with ModelServer.in_thread([model.reply("Hi.")]) as server:
        point_at(dsh, server)
        done = dsh("run", "Go.")

    assert "not this one" in done.stderr
    assert "'bad'" in done.stderr
    assert "Traceback" not in done.stderr
    assert (done.returncode == 0) == ("session_created" in body)


def test_an_event_of_a_plugin_says_its_own_line(dsh: Shell) -> None:
    text = (
        "from dsh_core import EventData, case, hookimpl\n"
        "@case('saver/saved')\n"
        "class Saved(EventData):\n"
        "    tokens: int\n"
        "    @property\n"
        "    def notice(self):\n"
        "        return f'saved {self.tokens}\\x1b[31m\\nin all' if self.tokens else None\n"
        "@hookimpl\n"
        "async def agent_turn_start(agent):\n"
        "    agent.session.append(Saved(7))\n"
        "    agent.session.append(Saved(0))\n"
    )
    distribution(dsh.work / "site", "saver", {"saver": "saver"}, saver=text)
    dsh.env["PYTHONPATH"] = str(dsh.work / "site")
    with ModelServer.in_thread(default=model.reply("Done.")) as server:
        point_at(dsh, server)
        shown, quiet = dsh("run", "Go."), dsh("run", "--quiet", "Go.")

    assert shown.stdout == quiet.stdout == "Done.\n"
    (line,) = [line for line in shown.stderr.splitlines() if "saved" in line]
    assert line.startswith("saved 7\\x1b")
    assert "\x1b" not in line
    assert "in all" not in line
    assert "saved" not in quiet.stderr
