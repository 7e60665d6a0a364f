"""`dsh sessions show` and `export`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsh_core import StoredSession, UserError, to_json
from dsh_core.cli import EXIT_OK, printable, say, show

if TYPE_CHECKING:
    import argparse

    from dsh_persistence.cli import Stored


def add_show(verbs: Any) -> None:
    """Add `show`."""
    verb = verbs.add_parser("show", help="what was said and done in a session")
    verb.add_argument("session")
    verb.add_argument("--last", type=_count, metavar="N", help="only the last N turns")
    verb.add_argument("--json", action="store_true", help="print its events as JSON lines")
    verb.set_defaults(action=show_session)


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


async def show_session(arguments: argparse.Namespace, stored: Stored) -> int:
    """Print a session for people."""
    from dsh_persistence.export.markdown import markdown
    from dsh_persistence.export.transcript import transcript

    found = await stored.store.load(arguments.session)
    if arguments.json:
        show(json_lines(found).rstrip("\n"))
    else:
        told = transcript(found.header, found.events)
        show(printable(markdown(told, last_turns=arguments.last).rstrip("\n")))
    return EXIT_OK


def add_export(verbs: Any) -> None:
    """Add `export`."""
    verb = verbs.add_parser("export", help="a session as a document")
    verb.add_argument("session")
    forms = verb.add_mutually_exclusive_group(required=True)
    forms.add_argument("--json", dest="form", action="store_const", const="json", help="its events")
    forms.add_argument(
        "--markdown", dest="form", action="store_const", const="markdown", help="text"
    )
    forms.add_argument("--html", dest="form", action="store_const", const="html", help="one page")
    verb.add_argument("-o", "--output", metavar="FILE", help="write there, not to standard output")
    verb.set_defaults(action=export)


async def export(arguments: argparse.Namespace, stored: Stored) -> int:
    """Write a session in one of the forms."""
    found = await stored.store.load(arguments.session)
    text = document(found, arguments.form)
    if arguments.output is None:
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
        return EXIT_OK
    _write(Path(arguments.output), text)
    say(f"wrote {arguments.output}")
    return EXIT_OK


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"it cannot be written: {error.strerror}",
            where=str(path),
            remedy="Choose another file.",
        ) from error


def document(found: StoredSession, form: str) -> str:
    """Return a session in a form: json, markdown or html."""
    if form == "json":
        return json_lines(found)
    from dsh_persistence.export.transcript import transcript

    told = transcript(found.header, found.events)
    if form == "markdown":
        from dsh_persistence.export.markdown import markdown

        return markdown(told)
    from dsh_persistence.export.html import html

    return html(told)


def json_lines(found: StoredSession) -> str:
    """Return header and events, one JSON object per line, ASCII only as `dsh run --json`."""
    header = {"type": "dsh/session", **to_json(found.header)}
    values = [header, *(event.to_json() for event in found.events)]
    return "".join(json.dumps(value, separators=(",", ":")) + "\n" for value in values)
