"""A session as Markdown."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

from dsh_persistence.export.transcript import Item, Step, Transcript, Turn

_SPOKEN = {"context": "context", "steering": "steered", "user": "user"}


def markdown(told: Transcript, *, last_turns: int | None = None) -> str:
    """Return the document; `last_turns` = only so many turns from the end."""
    header, summary = told.header, told.summary
    begun = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(header.created_at))
    lines = [f"# {_one_line(summary.title or header.id)}", ""]
    lines += [f"- session: `{header.id}`", f"- begun: {begun}"]
    lines += [f"- folder: `{_one_line(header.cwd)}`"] if header.cwd else []
    lines += [f"- forked from: `{header.parent}`"] if header.parent else []
    lines += [f"- turns: {summary.turns}", f"- tokens: {summary.usage.total_tokens}", ""]
    turns = told.turns if last_turns is None else told.turns[-last_turns:]
    if len(turns) < len(told.turns):
        lines += [f"({len(told.turns) - len(turns)} earlier turns are left out.)", ""]
    for turn in turns:
        lines += _turn(turn)
    return "\n".join(lines).rstrip() + "\n"


def _turn(turn: Turn) -> Iterator[str]:
    yield from (f"## Turn {turn.number}", "")
    for step in turn.steps:
        yield from _step(step)
    if turn.reason != "completed":
        why = f": {turn.reason_text}" if turn.reason_text else ""
        yield from (f"*The turn {_ended(turn.reason)}{why}*", "")


def _ended(reason: str | None) -> str:
    return "is not over" if reason is None else f"ended: {reason}"


def _step(step: Step) -> Iterator[str]:
    if step.number:
        tokens = f", {step.usage.total_tokens} tokens" if step.usage else ""
        yield from (f"### Step {step.number} ({step.seconds:.1f} s{tokens})", "")
    for item in step.items:
        yield from _item(item)


def _item(item: Item) -> Iterator[str]:
    source = f" ({item.source})" if item.source else ""
    match item.kind:
        case "text":
            yield from (item.text, "")
        case "reasoning":
            yield from ("<details><summary>Reasoning</summary>", "", *_fenced(item.text))
            yield from ("", "</details>", "")
        case "call":
            yield from _call(item)
        case "image":
            yield from (f"*An image, {item.text}{source}*", "")
        case "changed":
            yield from (f"*{item.source} changed {item.text}*", "")
        case "error":
            yield from (f"**Error{source}:** {item.text}", "")
        case "note":
            yield from (f"*{item.text}{source}*", "")
        case kind:
            yield f"**{_SPOKEN.get(kind, kind)}{source}:**"
            yield from ("", item.text, "")


def _call(item: Item) -> Iterator[str]:
    details = item.details
    yield from (f"**{item.text}**", "", *_fenced(details["arguments"], "json"), "")
    if details["verdict"] != "allow":
        yield from ("*refused*", "")
    if details.get("diff"):
        yield from (*_fenced(details["diff"], "diff"), "")
    elif "output" in details:
        label = f"*failed, {details['code'] or 'no code'}*" if details["is_error"] else ""
        yield from ((label, "") if label else ())
        yield from (*_fenced(details["output"]), "")


def _fenced(text: str, language: str = "") -> Iterator[str]:
    """Fence a text with more backticks than it has in a row."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield f"{fence}{language}"
    yield text.rstrip("\n")
    yield fence


def _one_line(text: str) -> str:
    return " ".join(text.split())
