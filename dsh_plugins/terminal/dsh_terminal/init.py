"""`dsh init`: a commented `dsh.yaml` for this project."""

from __future__ import annotations

import os
from collections.abc import Sequence

from dsh_core import UserError
from dsh_core.cli import EXIT_OK, CliContext, Parser, show

FILE = "dsh.yaml"

TEMPLATE = """\
# How dsh works in this project. `dsh config check` says what is wrong with it, `dsh config schema`
# prints a JSON Schema for editors. Keys never stand here: they come from the environment.

providers:
  # The models of DeepSeek; export DEEPSEEK_API_KEY=… before you start dsh.
  deepseek:
    adapter: openai_chat
    base_url: https://api.deepseek.com
    api_key: ${DEEPSEEK_API_KEY:-}
    models:
      deepseek-chat: {context_window_tokens: 131072}
  # Any endpoint that speaks chat completions will do, as one on your own machine:
  # local:
  #   adapter: openai_chat
  #   base_url: http://127.0.0.1:8080/v1
  #   models: {my-model: {context_window_tokens: 32768}}

default_agent: coder

agents:
  coder:
    model: deepseek/deepseek-chat
    system_prompt: You are a careful software engineer.
    # tools: [read, glob, grep]     # only these; without the line all that plugins bring

# Plugins that are installed are on; `dsh plugins` lists them, docs/settings.md their settings.
# plugins:
#   terminal: {reasoning: shown}    # keep a model's reasoning on the screen
#   shell: false                    # switch one off
"""


def command(argv: Sequence[str], context: CliContext) -> int:
    """Write the file, unless there is one; agree to it, since its user asked for it."""
    Parser(prog="dsh init", description="Write a commented dsh.yaml here.").parse_args(argv)
    path = context.cwd / FILE
    content = TEMPLATE.encode()
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
    except FileExistsError:
        raise UserError(
            f"{path} exists already", remedy="`dsh config check` says whether it is fine."
        ) from None
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from error
    context.trust.trust(path, content)
    show(f"written: {path}")
    show("Next: export DEEPSEEK_API_KEY=…, or name another provider in it; then `dsh chat`.")
    return EXIT_OK
