"""Which configuration files there are, and what they hold."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from dsh_core.config.source import Source, SourceKind
from dsh_core.config.yaml import LIMIT_BYTES, read_document
from dsh_core.errors import ConfigError
from dsh_core.record import record

PROJECT_FILE = "dsh.yaml"
USER_FILE = "config.yaml"


@record()
class ReadFile:
    """A file's bytes, read once: what is trusted is what is used.

    Args:
        path: Absolute path.
        content: As it was on disk.
        label: The path as messages show it, relative where it lies below the working directory.
    """

    path: Path
    content: bytes
    label: str

    def source(self, kind: SourceKind, *, trusted: bool = True) -> Source:
        """Parse it; raises `ConfigError` where it is not YAML as we read it."""
        document = read_document(self.content, self.label)
        return Source(
            label=self.label,
            kind=kind,
            data=document.data,
            places=document.places,
            written=document.written,
            trusted=trusted,
            folder=self.path.parent,
        )


def user_dir(environ: Mapping[str, str]) -> Path:
    """Return the folder of the user's own files: `DSH_USER_DIR`, or the platform's place for it."""
    if environ.get("DSH_USER_DIR", "").strip():
        return Path(environ["DSH_USER_DIR"].strip()).expanduser().absolute()
    import platformdirs  # not needed, and not imported, where the folder is given

    return platformdirs.user_config_path("dsh-core")


def find_project_file(cwd: Path) -> Path | None:
    """Look for `dsh.yaml` in a folder and, inside a repository, above it up to the root.

    Outside a repository nothing above counts: a file that someone left in a shared folder such as
    the temporary one is not this project's. The root is the nearest folder with `.git`.
    """
    start = Path(os.path.abspath(cwd))
    folders = (start, *start.parents)
    root = next((folder for folder in folders if os.path.exists(folder / ".git")), start)
    for folder in folders:
        if os.path.isfile(folder / PROJECT_FILE):
            return folder / PROJECT_FILE
        if folder == root:
            break
    return None


def read_file(path: Path, cwd: Path) -> ReadFile:
    """Read a file; raises `ConfigError` where it cannot be read."""
    absolute = Path(os.path.abspath(cwd / path))
    try:
        with absolute.open("rb") as file:
            content = file.read(LIMIT_BYTES + 1)
    except FileNotFoundError:
        remedy = "Check the path."
        raise ConfigError("the file does not exist", where=str(path), remedy=remedy) from None
    except OSError as error:
        message = f"the file cannot be read: {error.strerror or error}"
        raise ConfigError(
            message, where=str(path), remedy="Check what it is and who may read it."
        ) from None
    return ReadFile(absolute, content, _label(absolute, cwd))


def _label(path: Path, cwd: Path) -> str:
    here = os.path.abspath(cwd)
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
