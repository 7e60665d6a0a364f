"""`dsh run` with the installed plugin: what a person sees of it."""

from __future__ import annotations

import json

import pytest
from compaction_stage import is_summary_request
from program import Shell

from dsh_core.testing.behaviours import call, reply
from dsh_core.testing.model_server import ModelServer

pytest.importorskip("dsh_files")


@pytest.fixture
def dsh(tmp_path):
    for name in ("work", "home"):
        (tmp_path / name).mkdir()
    return Shell(tmp_path / "work", tmp_path / "home")


def reading(request):
    """Read the file again and again, until the summary came up a second time."""
    if is_summary_request(request):
        return reply("## Request\nRead the file.\n## Next step\nRead on.")
    if request.number > 8:
        return reply("Read it all.")
    return call("read", {"file_path": "long.txt", "offset": request.number})


def run(dsh, *options):
    (dsh.work / "long.txt").write_text("".join(f"line {n} of the file\n" for n in range(150)))
    with ModelServer.in_thread(default=reading, strict=True, window_tokens=8000) as server:
        provider = {
            "adapter": "openai_chat",
            "base_url": server.base_url,
            "models": {"m": {"context_window_tokens": 8000}},
        }
        plugins = {"shell": False}
        (dsh.work / "dsh.yaml").write_text(
            json.dumps({"providers": {"p": provider}, "plugins": plugins})
        )
        done = dsh("run", "-c", "dsh.yaml", *options, "Read long.txt.")
        assert server.problems == []
    return done


def test_a_run_shows_that_room_is_made_and_what_was_saved(dsh):
    done = run(dsh)

    assert done.stdout == "Read it all.\n"
    said = [line for line in done.stderr.splitlines() if line.startswith("compaction: ")]
    assert said[0].startswith("compaction: the conversation takes about 6,")
    assert said[0].endswith(" of 8,000 tokens")
    assert said[1].startswith("compaction: p/m summarises ")
    assert "messages replaced)" in said[2]
    assert "plugin failed" not in done.stderr


def test_in_json_the_events_tell_it(dsh):
    lines = [json.loads(line) for line in run(dsh, "--json").stdout.splitlines()]
    events = [line.get("event", line) for line in lines]
    ends = [event["data"] for event in events if event.get("type") == "compaction/end"]

    assert ends
    assert ends[0]["outcome"] == "compacted"
    assert ends[0]["tokens_after"] < ends[0]["tokens_before"]
