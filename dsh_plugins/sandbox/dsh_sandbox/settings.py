"""What a user may set under `plugins.sandbox`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Settings:
    """What sandboxed commands may do. A project's file that is not trusted sets none of it."""

    mode: Literal["workspace-write", "read-only", "off"] = "workspace-write"
    """`workspace-write`: commands write below the agent's working directory and in a `/tmp` of
    their own; `read-only`: nowhere but in a `/tmp` that ends with the command; `off`: anywhere."""

    network: bool = True
    """Whether commands reach other machines, and services of this one by TCP and UDP. On, since
    package managers, git and tests need it; off, nothing that is read can be sent away."""

    backend: Literal["auto", "bubblewrap", "landlock"] = "auto"
    """What confines commands. `auto`: bubblewrap where it works, else Landlock."""

    required: bool = False
    """Whether commands are refused where no backend works. Off, they run unconfined there, which
    the session and every result say: on a system without a backend nothing would run at all."""

    writable: tuple[str, ...] = ()
    """More folders and files that commands may write; `~` works. As in `~/.cache/pip`."""

    protected: tuple[str, ...] = (
        ".git/hooks/",
        ".git/config",
        ".git/modules/",
        ".dsh/",
        "dsh.yaml",
        ".vscode/",
        ".idea/",
        ".mcp.json",
    )
    """Names that cannot be written or created, at the top of each folder that commands may write:
    what stands there is run or obeyed outside the sandbox later. A folder ends with `/`."""

    hidden: tuple[str, ...] = (
        "~/.ssh",
        "~/.gnupg",
        "~/.aws",
        "~/.azure",
        "~/.config/gcloud",
        "~/.config/gh",
        "~/.docker",
        "~/.kube",
        "~/.netrc",
        "~/.git-credentials",
        "~/.pypirc",
    )
    """What commands cannot read: keys and passwords. dsh's own folder is never readable."""

    unix_sockets: bool = False
    """Whether commands can open unix sockets. Off: such a socket leads to a service that is not
    confined, as Docker's or the SSH agent's. Pairs of sockets inside a program always work."""

    def __post_init__(self) -> None:
        for name in self.protected:
            parts = name.rstrip("/").split("/")
            if not name.strip() or name.startswith(("/", "~")) or {"", ".", ".."} & {*parts}:
                raise ValueError(f"protected holds {name!r}, which is no name below a folder")
