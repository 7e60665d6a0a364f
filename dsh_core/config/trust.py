"""Which project files the user has agreed to.

A cloned folder's `dsh.yaml` must not choose where keys go, what runs, or which guard is off before
its owner has seen it (CVE-2025-59536, CVE-2026-21852, CVE-2026-33068).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from pathlib import Path

from dsh_core.errors import ConfigError

FILE = "trusted.json"
_VERSION = 1
UNTIL_TRUSTED = "until you trust this folder (dsh trust)"


class TrustStore:
    """The project files the user has agreed to: path and SHA-256 of the content that was shown.

    One content per path: a changed file is asked about again. Kept in `trusted.json` in the user's
    folder, readable by the user only. A damaged file means that nothing is trusted; `problem` says
    so, and `trust` refuses to overwrite it.
    """

    def __init__(self, user_dir: Path):
        self.path = user_dir / FILE

    @property
    def problem(self) -> str | None:
        """What is wrong with the file, a line for the user; None = nothing."""
        return self._read()[1]

    def is_trusted(self, path: Path, content: bytes) -> bool:
        """Whether the user has agreed to this file with this content."""
        return self._read()[0].get(_key(path)) == _digest(content)

    def trust(self, path: Path, content: bytes) -> None:
        """Remember that the user has agreed; raises `ConfigError` where that cannot be kept."""
        files, problem = self._read()
        if problem is not None:
            remedy = "Delete it and trust your folders again."
            raise ConfigError(
                problem.removeprefix(f"{self.path}: "), where=str(self.path), remedy=remedy
            )
        text = json.dumps(
            {"version": _VERSION, "files": {**files, _key(path): _digest(content)}}, indent=2
        )
        try:
            self._write(text + "\n")
        except OSError as error:
            message = f"cannot be written: {error.strerror or error}"
            raise ConfigError(message, where=str(self.path), remedy="Check its folder.") from None

    def _read(self) -> tuple[dict[str, str], str | None]:
        try:
            data = json.loads(self.path.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return {}, None
        except (OSError, ValueError) as error:
            return {}, self._problem(str(error))
        if not isinstance(data, dict) or data.get("version") != _VERSION:
            return {}, self._problem(f"version {_VERSION} is wanted")
        files = data.get("files")
        if not isinstance(files, dict) or not all(isinstance(each, str) for each in files.values()):
            return {}, self._problem("`files` must map paths to hashes")
        return files, None

    def _problem(self, reason: str) -> str:
        return f"{self.path}: the list of trusted files is damaged, nothing is trusted ({reason})"

    def _write(self, text: str) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{FILE}.")  # mode 0600
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise


def _key(path: Path) -> str:
    """The folder is resolved, the file is not: a link to a trusted file is not itself trusted."""
    return str(path.parent.resolve() / path.name)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
