"""What a user may set under `plugins.shell`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """Limits and habits of the shell tools."""

    timeout_seconds: float = 120
    """Seconds a command may take when the model names no timeout: most builds and test runs fit."""

    max_timeout_seconds: float = 600
    """Most seconds the model may ask for; what takes longer belongs in the background."""

    grace_seconds: float = 3
    """Seconds between TERM and KILL: time to remove temporary files, short for a waiting person."""

    output_limit_bytes: int = 64_000
    """Bytes of cleaned output kept per stream: a quarter from its start, which says what ran, the
    rest from its end, where errors stand. About 16 000 tokens."""

    spill_limit_bytes: int = 64 * 1024 * 1024
    """Bytes of a longer stream that are saved, raw, to a private file: bounds the disk a runaway
    command can fill."""

    keep_env: tuple[str, ...] = ()
    """Names of variables that commands get although they look like secrets, as in `NPM_TOKEN`."""

    enable_background: bool = True
    """Whether commands may run as background jobs; off also takes `bash_output` and `bash_kill`."""

    max_jobs: int = 10
    """Jobs an agent may have running at a time: more is a model that lost count."""

    shell: str = "bash"
    """The shell, called as `SHELL -c COMMAND`: a name on PATH, or a path."""

    def __post_init__(self) -> None:
        for name in ("timeout_seconds", "max_timeout_seconds", "output_limit_bytes", "max_jobs"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be greater than 0")
        for name in ("grace_seconds", "spill_limit_bytes"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative")
        if not self.shell.strip():
            raise ValueError("shell must name a program")
