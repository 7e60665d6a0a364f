"""Every seam on every path: which hook fires where, and why it does not elsewhere.

The table is the test's (`test_seams.py`), which plays every path of `seam_paths.py` and compares;
`docs/generate.py` writes it to `docs/seams.md`. A new hook wants a row, a new path a column.
"""

from __future__ import annotations

FIRES = "●"

PATHS = {
    "st": ("streaming", "a turn with a tool call"),
    "wh": ("whole", "the same over HTTP, the replies in one piece"),
    "js": ("json", "`dsh run --json`"),
    "re": ("retry", "the first attempt fails"),
    "ab": ("abort", "somebody aborts while the model speaks"),
    "at": ("abort-tool", "somebody aborts while a tool runs"),
    "di": ("dispose", "the agent is disposed while a tool runs"),
    "sg": ("steering", "a message joins the running turn"),
    "in": ("injection", "context for an idle agent"),
    "ex": ("exclusive", "maintenance of an idle agent that measures and asks the model"),
    "rc": ("record", "an event is recorded while the agent is idle"),
    "fk": ("fork", "an agent takes up the fork of a session"),
    "sd": ("seed", "an agent starts with the events of another"),
    "rs": ("resume", "an agent takes up a stored session that a crash interrupted"),
    "dn": ("denied", "a policy denies the call"),
    "as": ("asked", "a policy asks about the call, and somebody says yes"),
    "un": ("unknown", "the model calls a tool that does not exist"),
    "lm": ("limit", "the turn has taken all its steps"),
    "oh": ("own-hooks", "the agent overrides another plugin, and so has hooks of its own"),
    "oi": ("own-instance", "the agent overrides the plugin, and so has an instance of its own"),
    "er": ("error", "the model fails for good"),
    "lt": ("late", "the plugin is registered while the harness runs"),
    "ch": ("changes", "tools, prompt sections and providers come and go"),
    "ou": ("outside", "the model is measured and asked outside any agent"),
}
"""Column → name of the path, and what happens on it, from the start of a harness to its end."""

REASONS = {
    "a": "there is no agent and no session",
    "b": "what there is was there before this instance of the plugin",
    "c": "only the command line has options",
    "d": "the call does not run",
    "e": "no request fails",
    "f": "no step ends well",
    "i": "an agent's own instance is not asked; the harness's instance was",
    "k": "no tool is called",
    "l": "the store was chosen before the plugin came",
    "m": "nobody measures",
    "n": "nothing is logged, and the model is not asked",
    "o": "a one-shot turn has the session's hooks, and those of what runs inside",
    "p": "no section comes or goes while the harness runs",
    "q": "no policy asks",
    "r": "no reply is assembled",
    "s": "nobody steers",
    "u": "there is no tool to run",
    "x": "nothing fails",
}
"""Why a hook does not fire."""

TABLE = """
                        st wh js re ab at di sg in ex rc fk sd rs dn as un lm oh oi er lt ch ou
cli_register            c  c  ●  c  c  c  c  c  c  c  c  c  c  c  c  c  c  c  c  c  c  c  c  c
tools_register          ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●
llm_register            ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  i  ●  ●  ●  ●
commands_register       ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  i  ●  ●  ●  ●
session_store           ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  i  ●  l  ●  ●
harness_start           ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●
session_created         ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  a
agent_created           ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  a
agent_disposed          ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  a
agent_status            ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  a
agent_queued            ●  ●  ●  ●  ●  ●  ●  ●  o  o  o  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  n  a
agent_turn_start        ●  ●  ●  ●  ●  ●  ●  ●  o  o  o  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  n  a
agent_steering          s  s  s  s  s  s  s  ●  o  o  o  s  s  s  s  s  s  s  s  s  s  s  n  a
agent_step_start        ●  ●  ●  ●  ●  ●  ●  ●  o  o  o  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  n  a
system_prompt_sections  ●  ●  ●  ●  ●  ●  ●  ●  o  o  o  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  n  a
system_prompt_assemble  ●  ●  ●  ●  ●  ●  ●  ●  o  o  o  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  n  a
system_prompt_change    p  p  p  p  p  p  p  p  p  p  p  p  p  p  p  p  p  p  p  p  p  p  ●  p
agent_request           ●  ●  ●  ●  ●  ●  ●  ●  o  o  o  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  n  a
llm_stream              ●  ●  ●  ●  ●  ●  ●  ●  o  ●  o  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  n  ●
agent_stream_chunk      ●  ●  ●  ●  ●  ●  ●  ●  o  o  o  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  n  a
agent_request_error     e  e  e  ●  e  e  e  e  o  o  o  e  e  e  e  e  e  e  e  e  ●  e  n  a
agent_step_result       ●  ●  ●  ●  ●  ●  ●  ●  o  o  o  ●  ●  ●  ●  ●  ●  ●  ●  ●  r  ●  n  a
tokens_measure          m  m  m  m  m  m  m  m  m  ●  m  m  m  m  m  m  m  m  m  m  m  m  m  ●
llm_adapter_change      ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  b  ●  b  ●  ●
tool_effects            ●  ●  ●  ●  k  ●  ●  ●  o  o  o  ●  ●  ●  ●  ●  ●  ●  ●  ●  k  ●  n  a
tools_authorize         ●  ●  ●  ●  k  ●  ●  ●  o  o  o  ●  ●  ●  ●  ●  ●  ●  ●  ●  k  ●  n  a
approval_request        q  q  q  q  k  q  q  q  o  o  o  q  q  q  q  ●  q  q  q  q  k  q  n  a
tools_execute           ●  ●  ●  ●  k  ●  ●  ●  o  o  o  ●  ●  ●  d  ●  ●  ●  ●  ●  k  ●  n  a
tools_result            ●  ●  ●  ●  k  ●  ●  ●  o  o  o  ●  ●  ●  ●  ●  ●  ●  ●  ●  k  ●  n  a
tools_change            ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  b  ●  b  ●  ●
shell_executor          ●  ●  ●  ●  k  ●  ●  ●  o  o  o  ●  ●  ●  d  ●  u  ●  ●  ●  k  ●  n  a
agent_step_end          ●  ●  ●  ●  ●  ●  ●  ●  o  o  o  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  n  a
agent_turn_continuation ●  ●  ●  ●  f  f  f  ●  o  o  o  ●  ●  ●  ●  ●  ●  ●  ●  ●  f  ●  n  a
agent_turn_end          ●  ●  ●  ●  ●  ●  ●  ●  o  o  o  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  n  a
agent_error             x  x  x  ●  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  x  ●  x  x  x
session_validate        ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  n  a
session_event           ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  n  a
session_flush           ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  n  a
harness_stop            ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●  ●
"""


def columns() -> list[str]:
    """The columns of the table."""
    return TABLE.split("\n")[1].split()


def rows() -> dict[str, list[str]]:
    """Hook → its cells, one for each column."""
    table: dict[str, list[str]] = {}
    for line in TABLE.strip("\n").split("\n")[1:]:
        hook, *row = line.split()
        if len(row) != len(columns()):
            raise ValueError(f"{hook} has {len(row)} cells for {len(columns())} columns")
        table[hook] = row
    return table


def cells() -> dict[tuple[str, str], str | None]:
    """(hook, path) → why it does not fire there; None = it fires."""
    return {
        (hook, PATHS[column][0]): None if cell == FIRES else REASONS[cell]
        for hook, row in rows().items()
        for column, cell in zip(columns(), row, strict=True)
    }


def firing() -> list[tuple[str, str]]:
    """Every hook with every path on which it fires."""
    return [cell for cell, reason in cells().items() if reason is None]


def page(note: str) -> str:
    """The table for people, in Markdown; `note` says where it comes from."""
    lines = [
        "# Seams",
        note,
        "Which hook fires on which path, from the start of a harness to its end. Where a hook",
        "fires, a plugin can change what it is there to change, and one that raises causes what",
        "the hook's policy says: `tests/test_seams.py` tries every cell.",
        "",
        "| | path | what happens |",
        "|---|---|---|",
        *(f"| {column} | {name} | {title} |" for column, (name, title) in PATHS.items()),
        "",
        f"{FIRES} = it fires; a letter says why it does not:",
        "",
        "| | |",
        "|---|---|",
        *(f"| {letter} | {reason} |" for letter, reason in REASONS.items()),
        "",
        f"| hook | {' | '.join(columns())} |",
        "|---|" + ":-:|" * len(columns()),
        *(f"| `{hook}` | {' | '.join(row)} |" for hook, row in rows().items()),
        "",
    ]
    return "\n".join(lines)
