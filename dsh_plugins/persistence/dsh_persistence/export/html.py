"""A session as one HTML file that needs nothing else.

Everything that comes from the session is escaped by the template; what a model wrote is shown as
Markdown without HTML, images and unsafe links. The page itself forbids scripts and everything from
elsewhere.
"""

from __future__ import annotations

import re
import time
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from dsh_core import __version__
from dsh_persistence.export.transcript import Transcript

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markupsafe import Markup

OUTPUT_LINES = 400
"""Of a tool's output that are shown; the JSON export has all of it."""

_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*")


def html(told: Transcript) -> str:
    """Return the page."""
    import jinja2

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "markdown": rendered,
        "diff": diff_lines,
        "cut": cut,
        "seconds": duration,
        "thousands": lambda number: f"{number:,}".replace(",", "\u202f"),
        "date": lambda at: time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at)),
        "picture": picture,
    }
    files = resources.files("dsh_persistence.export")
    page = environment.from_string((files / "page.html").read_text(encoding="utf-8"))
    style = (files / "page.css").read_text(encoding="utf-8")
    return page.render(told=told, style=style, version=__version__)


def rendered(text: str) -> Markup:
    """Return Markdown as HTML."""
    from markupsafe import Markup

    return Markup(_markdown().render(text))  # noqa: S704 - it renders no HTML of the text's own


@cache
def _markdown() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")


def diff_lines(text: str) -> list[tuple[str, str]]:
    """Return the lines of a diff, each with what it is: added, removed, place or same."""
    kinds = {"+": "added", "-": "removed", "@": "place"}
    return [(kinds.get(line[:1], "same"), line) for line in text.rstrip("\n").split("\n")]


def cut(text: str) -> tuple[str, int]:
    """Return as much of an output as is shown, and how many lines are left out."""
    lines = text.rstrip("\n").split("\n")
    return "\n".join(lines[:OUTPUT_LINES]), max(0, len(lines) - OUTPUT_LINES)


def duration(seconds: float) -> str:
    """Say how long something took."""
    if seconds >= 60:
        return f"{int(seconds // 60)} min {int(seconds % 60)} s"
    return f"{seconds:.1f} s" if seconds >= 0.95 else f"{seconds * 1000:.0f} ms"


def picture(details: dict[str, Any]) -> str | None:
    """Return the address of an image inside the page; None for what is no picture."""
    media_type, data = details["media_type"], details["data"]
    if media_type not in _PICTURES or not _BASE64.fullmatch(data):
        return None
    return f"data:{media_type};base64,{data}"
