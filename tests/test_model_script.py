import signal
import subprocess
import sys

import httpx
import pytest

from dsh_core.errors import ConfigError
from dsh_core.testing import behaviours
from dsh_core.testing.behaviours import (
    call,
    rate_limit,
    reply,
    server_error,
)
from dsh_core.testing.model_script import read_script


def test_every_verb_may_stand_in_a_script_but_raw():
    verbs = {line.strip(" ,") for line in behaviours.__doc__.split("::")[1].split()}
    named = {name.strip(",") for name in verbs if hasattr(behaviours, name.strip(","))}

    assert set(behaviours.BEHAVIOURS) == named - {"raw"}


def test_a_script_in_yaml_names_behaviours(tmp_path):
    (tmp_path / "s.yaml").write_text(
        "- reply: Hello\n"
        "- reply: {text: Two, calls: [{name: read, arguments: {path: a}}]}\n"
        "- call: {name: bash, arguments: {command: ls}}\n"
        "- rate_limit: {retry_after: 2}\n"
        "- server_error\n"
    )

    assert read_script(tmp_path / "s.yaml") == [
        reply("Hello"),
        reply("Two", calls=[call("read", {"path": "a"})]),
        call("bash", {"command": "ls"}),
        rate_limit(retry_after=2),
        server_error(),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("reply: x\n", "expected a list of behaviours"),
        ("- a\n- [\n", "is not YAML"),
        ("- reply: x\n- shout\n", "'shout' is no behaviour"),
        ("- reply: x\n- raw: x\n", "{'raw': 'x'} is no behaviour"),
        ("- reply: x\n- reply: {txt: x}\n", "reply: txt: Unexpected keyword argument"),
        ("- reply: x\n- reply: {text: [x]}\n", "reply: text: Input should be a valid string"),
    ],
)
def test_a_script_that_does_not_fit_is_named(tmp_path, text, message):
    path = tmp_path / "s.yaml"
    path.write_text(text)

    with pytest.raises(ConfigError) as error:
        read_script(path)

    assert error.value.where in {str(path), f"{path}, item 2"}
    assert error.value.message.startswith(message)


def test_a_person_can_point_a_product_at_the_command():
    body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
    command = [sys.executable, "-m", "dsh_core.testing.model_server", "--say", "Hello you"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            base_url = server.stdout.readline().strip()
            response = httpx.post(f"{base_url}/chat/completions", json=body, trust_env=False)
            assert response.json()["choices"][0]["message"]["content"] == "Hello you"
            assert server.stdout.readline() == (
                "<request 1: 1 messages, last user 'hello', reply, answered>\n"
            )
        finally:
            server.send_signal(signal.SIGINT)

    assert server.returncode == 0


def test_the_command_says_what_is_wrong_with_a_script(tmp_path):
    command = [sys.executable, "-m", "dsh_core.testing.model_server", str(tmp_path / "none.yaml")]

    run = subprocess.run(command, capture_output=True, text=True, check=False)

    assert run.returncode == 2
    assert "none.yaml: cannot be read" in run.stderr
    assert "Traceback" not in run.stderr
