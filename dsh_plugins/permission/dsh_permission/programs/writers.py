"""Programs that change files, and others whose operands are files or addresses.

The plain file commands are accepted in the mode `accept_edits`; what is known of the others serves
deny rules only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from dsh_permission.names import names
from dsh_permission.programs.options import Given, Options, leading, literal_word
from dsh_permission.programs.use import Use
from dsh_permission.shell.tree import Word

_O = Options.of
_PLAIN: Mapping[str, Options] = {
    "mkdir": _O("pvm:", "parents verbose mode="),
    "rmdir": _O("pv", "parents verbose"),
    "touch": _O("acmhd:t:r:", "no-create date= time= reference="),
    "tee": _O("ai", "append ignore-interrupts"),
    "cp": _O("afinrRvpuT", "archive force interactive no-clobber recursive verbose update? "
             "no-target-directory preserve?"),
    "mv": _O("finvuT", "force interactive no-clobber verbose update? no-target-directory"),
}  # fmt: skip

_READING = names(
    "bat more less view vim vi nano emacs ed ex xxd hexdump hd strings zcat bzcat xzcat gzip "
    "gunzip zgrep ag ack yq xmllint source . python python3 node ruby perl php patch iconv pr "
    "fmt expand unexpand split csplit shuf join tsort look ul xz bzip2 zstd zip openssl gpg "
    "pandoc install rsync scp sftp tar cpio dd ln uuencode base32 basenc sum b2sum sqlite3 "
    "docker curl wget"
)
_WRITING = names(
    "rm unlink shred truncate chmod chown chgrp mkfifo mknod ln install dd patch ed ex vim vi "
    "nano emacs split csplit unzip gzip gunzip bzip2 xz zstd rsync setfacl chattr xxd cpio "
    "zip sqlite3 tar sponge"
)
_WHOLE_FOLDERS = frozenset({"tar", "zip", "rsync", "scp", "cpio", "docker", "ag", "ack", "zgrep"})
_CLIENTS = frozenset({"curl", "wget", "http", "https", "xh", "aria2c", "lynx", "w3m", "links"})
_TAR_DANGER = (
    "--checkpoint-action", "--to-command", "--use-compress-program", "--rsh-command",
    "--info-script", "--new-volume-script", "--rmt-command",
)  # fmt: skip
_SSH_OPTION = re.compile(r"(?i)^-?o?\s*(ProxyCommand|LocalCommand|KnownHostsCommand|PermitLocal)")


def write_use(name: str, words: Sequence[Word]) -> Use | None:
    """Return what a program that is known to change files does; `words` follow its name."""
    known = _PLAIN.get(name)
    if known is not None:
        return _plain(name, known.read(words))
    use = Use()
    candidates = _candidates(name, words)
    if name in _READING:
        use.reads = candidates
    if name in _WRITING:
        use.writes = candidates
    if name in _CLIENTS:
        use.urls = [w for w in words if not leading(w).startswith("-")] + _attached(words)
        use.reads += [literal_word(w.literal.partition("@")[2]) for w in words if w.literal
                      and w.literal.startswith("@")]  # fmt: skip
    use.is_recursive = name in _WHOLE_FOLDERS
    if name in ("rm", "unlink", "shred"):
        _removal(words, use)
    use.danger = _danger(name, words)
    known_use = use.reads or use.writes or use.urls or use.danger
    return use if known_use or name in _READING | _WRITING | _CLIENTS else None


def _plain(name: str, given: Given) -> Use:
    operands = list(given.operands)
    use = Use(problem=given.problem)
    if name in ("cp", "mv"):
        sources, targets = operands[:-1], operands[-1:]
        use.reads = sources if name == "cp" else []
        use.is_recursive = bool({"-r", "-R", "-a", "--recursive", "--archive"} & set(given.options))
        use.writes = targets + _inside(targets, sources) + (sources if name == "mv" else [])
        if any(
            os.path.basename((w.literal or "x").rstrip("/")) in ("", ".", "..") for w in sources
        ):
            use.problem = use.problem or f"{name} takes all that is in a folder"
        if "-T" not in given.options and any(w.literal is None for w in sources):
            use.problem = use.problem or "what it copies is not known before it runs"
    else:
        use.writes = operands
        use.reads = given.values.get("-r", []) + given.values.get("--reference", [])
    if any(word.literal is None for word in operands):
        use.problem = use.problem or "an operand is not known before it runs"
    use.file_command = use.problem is None
    use.problem = use.problem or f"{name} changes files"
    return use


def _last_part(word: Word) -> str:
    return os.path.basename((word.literal or "x").rstrip("/"))


def _inside(targets: Sequence[Word], sources: Sequence[Word]) -> list[Word]:
    """Return the names that sources get where the target is a folder."""
    if not targets or targets[0].literal is None:
        return []
    folder = targets[0].literal
    return [
        literal_word(os.path.join(folder, os.path.basename(word.literal.rstrip("/"))))
        for word in sources
        if word.literal
    ]


def _candidates(name: str, words: Sequence[Word]) -> list[Word]:
    """Return every word that may be a file: operands, and what is attached to options."""
    found = [word for word in words if not leading(word).startswith("-")]
    if name == "dd":
        found = [
            literal_word(word.literal.partition("=")[2])
            for word in words
            if word.literal and word.literal.startswith(("if=", "of="))
        ]
    return [word for word in found + _attached(words) if "://" not in (word.literal or "")]


def _attached(words: Sequence[Word]) -> list[Word]:
    values = []
    for word in words:
        if word.literal and word.literal.startswith("-") and "=" in word.literal:
            values.append(literal_word(word.literal.partition("=")[2]))
    return values


def _removal(words: Sequence[Word], use: Use) -> None:
    texts = [leading(word) for word in words]
    flags = "".join(text[1:] for text in texts if text.startswith("-") and text[1:2] != "-")
    if {"r", "R"} & set(flags) or any(text.startswith("--r") for text in texts):
        use.removes = [word for word in words if not leading(word).startswith("-")]


def _danger(name: str, words: Sequence[Word]) -> str | None:
    texts = [leading(word) for word in words]
    if name == "tar":
        return _tar_danger(texts, words)
    if name == "rsync":
        runs = [t for t in texts if t.startswith(("--rsh", "--rs", "--rsync-p")) or _has(t, "e")]
        return f"rsync {runs[0]} runs a program" if runs else None
    return None


def _tar_danger(texts: Sequence[str], words: Sequence[Word]) -> str | None:
    for index, (text, word) in enumerate(zip(texts, words, strict=True)):
        name = text.partition("=")[0]
        if len(name) > 3 and any(danger.startswith(name) for danger in _TAR_DANGER):
            return f"tar {name} runs a program"
        if _has(text, "I") or _has(text, "F") or (index == 0 and text[:1] not in "-" and
                                                  set("IF") & set(text)):  # fmt: skip
            return f"tar {text} runs a program"
        if word.literal is None and not word.is_glob and not text:
            return f"{word.source!r} may become an option that runs a program"
    return None


def _has(text: str, letter: str) -> bool:
    return text.startswith("-") and not text.startswith("--") and letter in text


def ssh_danger(words: Sequence[Word]) -> str | None:
    """Return why options of ssh run a program here, or None."""
    for word in words:
        if _SSH_OPTION.match(leading(word).lstrip("-").removeprefix("o").lstrip() or "-"):
            return "an option of ssh runs a program on this machine"
        if _SSH_OPTION.match(leading(word)):
            return "an option of ssh runs a program on this machine"
    return None
