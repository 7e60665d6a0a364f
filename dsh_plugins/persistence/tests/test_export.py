"""Documents of sessions, also as a browser shows them."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

from dsh_core import Image, Reasoning, StoredSession, Text, ToolCall, Usage
from dsh_core.events import (
    AssistantMessage,
    Errored,
    ErrorEvent,
    LlmRetry,
    MessageTrigger,
    PluginTrace,
    RequestHeader,
    StepEnd,
    StepStart,
    ToolCallEvent,
    ToolResultEvent,
    TurnEnd,
    TurnStart,
    UsageEvent,
    UserMessage,
)
from dsh_persistence.cli.documents import document

EVIL = "<script>document.title='owned'</script><img src=x onerror=alert(1)>\"'&"
DIFF = "@@ -1,2 +1,2 @@\n-old <b>line</b>\n+new line\n same\n"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)


@pytest.fixture
def story(kit):
    """A session in which something of everything happens, some of it hostile."""
    picture = Image("image/png", "iVBORw0KGgo=")
    bad_picture = Image('image/svg+xml" onload="x', "<svg/>")
    write = ToolCall("c1", "edit", '{"file_path": "a.txt", "new_string": "new"}')
    run = ToolCall("c2", "bash", '{"command": "' + "x" * 50 + '"}')
    data = [
        TurnStart(1, MessageTrigger()),
        UserMessage((Text(f"Fix the **test**. {EVIL}"), picture, bad_picture)),
        StepStart(1, 1),
        RequestHeader(1, 1, "m/model", "sys", (), {}, {"system": "memory"}, ("system",)),
        LlmRetry(1, 1, 1, 0.5, "RATE_LIMIT", "too many requests"),
        PluginTrace("agent_request", 0.1, ({"plugin": "tidy", "changed": ["messages"]},)),
        AssistantMessage(
            1, 1, (Reasoning(f"Let me think. {EVIL}"), Text("I **edit**."), write, run), "m/model"
        ),
        UsageEvent(1, 1, Usage(1200, 34, 900), "m/model"),
        ToolCallEvent(1, 1, "c1", "edit", write.arguments),
        ToolResultEvent(1, 1, "c1", (Text("edited"),), meta={"diff": DIFF}),
        ToolCallEvent(1, 1, "c2", "bash", run.arguments, "deny"),
        ToolResultEvent(1, 1, "c2", (Text(EVIL),), is_error=True, code="DENIED"),
        StepEnd(1, 1),
        StepStart(1, 2),
        AssistantMessage(
            1,
            2,
            (
                Text(
                    "Done.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"
                    f"[x](javascript:alert(1)) ![i](http://evil/x.png) {EVIL}"
                ),
            ),
            "m/model",
        ),
        ErrorEvent(1, 2, f"it broke {EVIL}", plugin="memory"),
        StepEnd(1, 2),
        TurnEnd(1, Errored("it broke")),
    ]
    header = kit.header(cwd=f"/project/{EVIL}", agent=EVIL, parent="mother")
    return StoredSession(header, tuple(kit.numbered(data)))


class Tags(HTMLParser):
    """Collects the tags of a page with their attributes, and its text."""

    def __init__(self, page: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


def test_a_page_says_everything_and_trusts_nothing(story):
    page = document(story, "html")
    seen = Tags(page)

    assert not any(tag == "script" for tag, _ in seen.tags)
    assert not [a for _, a in seen.tags if any(name.startswith("on") for name in a)]
    assert [a["src"] for tag, a in seen.tags if tag == "img"] == [
        "data:image/png;base64,iVBORw0KGgo="
    ]
    links = [a.get("href") or "" for tag, a in seen.tags if tag in ("a", "link")]
    assert links == ["http://evil/x.png"], "a picture is a link; a link that runs is none"
    assert "default-src 'none'" in page
    assert EVIL in seen.text
    for words in (
        *("Turn 1", "Step 2", "Reasoning", "edit", "DENIED", "refused", "it broke", "mother"),
        *("tidy", "messages in agent_request", "memory", "system of the request"),
        *("too many requests", "2\u202f134", "new line"),
    ):
        assert words in seen.text, words
    assert ("strong", {}) in seen.tags
    assert ("table", {}) in seen.tags


def test_a_diff_shows_what_was_added_and_removed(story):
    page = document(story, "html")

    assert '<span class="removed">-old &lt;b&gt;line&lt;/b&gt;</span>' in page
    assert '<span class="added">+new line</span>' in page


def test_long_outputs_are_cut_and_say_so(kit):
    output = "\n".join(f"line {number}" for number in range(1000))
    data = kit.turn(1)
    data[6:6] = [
        ToolCallEvent(1, 1, "c", "bash", "{}"),
        ToolResultEvent(1, 1, "c", (Text(output),)),
    ]
    page = document(StoredSession(kit.header(), tuple(kit.numbered(data))), "html")

    assert "line 399\n" in page or "line 399</pre>" in page
    assert "line 400" not in page
    assert "600 more lines are in the JSON export" in page


def test_markdown_keeps_fences_closed(kit):
    data = kit.turn(1)
    data[6:6] = [
        ToolCallEvent(1, 1, "c", "bash", "not JSON ```` at all"),
        ToolResultEvent(1, 1, "c", (Text("```\ninside\n```"),)),
    ]
    text = document(StoredSession(kit.header(), tuple(kit.numbered(data))), "markdown")

    assert "`````json\nnot JSON ```` at all\n`````" in text
    assert "````\n```\ninside\n```\n````" in text


def test_an_empty_and_an_open_session_have_documents_too(kit):
    for events in ((), tuple(kit.log(2)[:11])):
        for form in ("html", "markdown", "json"):
            assert document(StoredSession(kit.header(), events), form)


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (apt-get install chromium)")
def test_a_browser_shows_the_page_and_runs_nothing(story, tmp_path):
    file = tmp_path / "page.html"
    file.write_text(document(story, "html"), encoding="utf-8")
    picture = tmp_path / "page.png"
    options = [
        *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
        *("--disable-dev-shm-usage", f"--user-data-dir={tmp_path / 'profile'}"),
    ]
    look = ["--window-size=900,1400", f"--screenshot={picture}", file.as_uri()]
    subprocess.run([CHROMIUM, *options, *look], check=True, capture_output=True, timeout=120)
    dump = subprocess.run(
        [CHROMIUM, *options, "--dump-dom", file.as_uri()],
        check=True,
        capture_output=True,
        timeout=120,
    ).stdout.decode()

    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 20_000, "the page is empty"
    title = re.search(r"<title>(.*?)</title>", dump, re.DOTALL)
    assert "Fix the" in title[1]
    assert "owned" not in title[1].replace("document.title='owned'", "")
    assert "<h2>Turn 1" in dump
