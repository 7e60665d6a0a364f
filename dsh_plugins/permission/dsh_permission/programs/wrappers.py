"""Programs that run the command in their words: `timeout`, `env`, `sudo`, `bash -c`, `xargs`.

A transparent one adds nothing of its own, so that an allowed command stays allowed in it. Through
the others deny and ask rules look, and they need a rule that names them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dsh_permission.names import names
from dsh_permission.programs.find import inner_commands
from dsh_permission.programs.options import Options, leading
from dsh_permission.shell.tree import Word

HARMLESS_VARIABLES = re.compile(
    r"LANG|LC_[A-Z]+|TZ|NO_COLOR|FORCE_COLOR|TERM|COLUMNS|LINES|CI|PYTHONUNBUFFERED|"
    r"PYTHONDONTWRITEBYTECODE|RUST_BACKTRACE|RUST_LOG"
)
ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
SHELLS = names("bash sh zsh dash ksh ash fish rbash mksh csh tcsh")


@dataclass(frozen=True, slots=True)
class Wrapped:
    """What runs inside a wrapper.

    Args:
        commands: Command lines.
        scripts: Shell text.
        transparent: Whether the wrapper adds nothing of its own.
        problem: Why it always asks: what runs is not known.
        danger: Why an allow rule for its prefix does not cover it.

    """

    commands: tuple[tuple[Word, ...], ...] = ()
    scripts: tuple[str, ...] = ()
    transparent: bool = False
    problem: str | None = None
    danger: str | None = None


_O = Options.of
_TRANSPARENT: Mapping[str, tuple[Options, int]] = {
    "timeout": (_O("pfvs:k:", "preserve-status foreground verbose signal= kill-after="), 1),
    "time": (_O("p"), 0),
    "nice": (_O("n:", "adjustment=", digits=True), 0),
    "nohup": (_O(""), 0),
    "stdbuf": (_O("i:o:e:", "input= output= error="), 0),
    "command": (_O("p"), 0),
}
_SEEN_THROUGH: Mapping[str, tuple[str, int]] = {
    "exec": ("a:cl", 0),
    "builtin": ("", 0),
    "setsid": ("cfw", 0),
    "ionice": ("c:n:p:tu", 0),
    "chrt": ("abdfimorvT:P:D:p", 1),
    "taskset": ("acp", 1),
    "sudo": ("AbEeHiKklnPSsVvC:D:g:h:p:R:r:T:t:U:u:", 0),
    "doas": ("C:Lnsu:", 0),
    "xargs": ("0rtxopa:d:E:e:I:i:L:l:n:P:s:", 0),
    "unshare": ("cfimnpruUCTR:S:G:w:", 0),
    "nsenter": ("aFmuinpCUTt:S:G:r:w:", 0),
    "chroot": ("", 1),
    "strace": ("cCdfFhiknqrtTvVwxyYzZa:b:e:E:I:o:O:p:P:s:S:u:U:X:", 0),
    "ltrace": ("cCfhiLrStTVa:A:D:e:l:n:o:p:s:u:w:x:", 0),
    "parallel": ("j:kvtn:I:a:", 0),
    "busybox": ("", 0),
    "toybox": ("", 0),
    "watch": ("bcdegtxpn:q:", 0),
    "runuser": ("lmpfu:g:G:", 0),
    "setarch": ("", 1),
    "prlimit": ("p:", 0),
    "systemd-run": ("p:u:E:dtPGqr", 0),
    "faketime": ("fm", 1),
    "catchsegv": ("", 0),
    "caffeinate": ("disut:w:", 0),
    "valgrind": ("", 0),
    "gdb": ("", 0),
    "perf": ("", 1),
    "numactl": ("", 0),
    "cgexec": ("g:", 0),
    "fakeroot": ("", 0),
    "firejail": ("", 0),
    "bwrap": ("", 0),
    "dbus-run-session": ("", 0),
    "xvfb-run": ("ae:n:s:", 0),
    "entr": ("acdnprsz", 0),
    "ssh-agent": ("", 0),
    "direnv": ("", 0),
    "unbuffer": ("p", 0),
    "script": ("", 0),
    "uv": ("", 0),
    "poetry": ("", 0),
    "pipenv": ("", 0),
    "doppler": ("", 0),
    "dotenv": ("", 0),
}  # fmt: skip


def unwrap(name: str, words: Sequence[Word]) -> Wrapped | None:
    """Return what runs inside a command line, None where the program is no wrapper."""
    special = _SPECIAL.get(name)
    if special is not None:
        return special(words)
    if name in SHELLS:
        return _shell(name, words)
    if name in _TRANSPARENT:
        options, skip = _TRANSPARENT[name]
        return _transparent(options, skip, words)
    if name in _SEEN_THROUGH:
        return _seen_through(name, words)
    return None


def _transparent(options: Options, skip: int, words: Sequence[Word]) -> Wrapped:
    parser = Options(options.flags, options.valued, options.longs, options.digits, mixed=False)
    given = parser.read(words)
    inner = given.operands[skip:]
    unknown = any(word.literal is None for word in given.operands[:skip])
    values = [value for each in given.values.values() for value in each]
    if given.problem or unknown or any(value.literal is None for value in values):
        return Wrapped(_every_tail(words))
    return Wrapped((inner,) if inner else (), transparent=bool(inner))


def _every_tail(words: Sequence[Word]) -> tuple[tuple[Word, ...], ...]:
    """Where options are not understood, the command may begin at any word."""
    return tuple(
        tuple(words[place:])
        for place in range(len(words))
        if not leading(words[place]).startswith("-")
    )


def _seen_through(name: str, words: Sequence[Word]) -> Wrapped:
    short, skip = _SEEN_THROUGH[name]
    options = Options.of(short, mixed=False)
    given = options.read(words)
    operands = list(given.operands)
    while operands and ASSIGNMENT.match(leading(operands[0])):
        operands = operands[1:]
    inner = tuple(operands[skip:])
    commands = _every_tail(words) if given.problem or not inner else (inner,)
    scripts = tuple(text for text in [_joined(inner)] if text and name in ("watch", "parallel"))
    danger = None
    if name == "xargs":
        danger = _xargs_danger(inner)
    return Wrapped(commands, scripts, danger=danger)


def _xargs_danger(inner: Sequence[Word]) -> str | None:
    first = inner[0].literal if inner else "echo"
    if first is None:
        return "xargs runs a program that is not known before it runs"
    if first.rpartition("/")[2] in SHELLS | {"env", "sudo", "xargs", "python", "python3", "perl",
                                             "ruby", "node", "eval"}:  # fmt: skip
        return f"xargs {first} runs what it reads"
    return None


def _joined(words: Sequence[Word]) -> str | None:
    texts = [word.literal for word in words]
    return None if any(text is None for text in texts) else " ".join(t for t in texts if t)


def _command(words: Sequence[Word]) -> Wrapped:
    first = words[0].literal if words else None
    if first in ("-v", "-V"):
        return Wrapped()
    options, skip = _TRANSPARENT["command"]
    return _transparent(options, skip, words)


def _env(words: Sequence[Word]) -> Wrapped:
    place = 0
    harmless = True
    while place < len(words):
        text = leading(words[place])
        if ASSIGNMENT.match(text):
            name, _, _ = text.partition("=")
            is_known = words[place].literal is not None
            harmless &= is_known and HARMLESS_VARIABLES.fullmatch(name) is not None
        elif text == "--":
            pass
        elif text.startswith("-") and text != "-":
            harmless = False
            if text.startswith(("-S", "--split-string", "--sp")) or (
                text[1:2] != "-" and "S" in text
            ):
                return _split_string(words[place:])
            if text in ("-u", "-C", "--unset", "--chdir", "-a", "--argv0"):
                place += 1
        elif text == "-":
            harmless = False
        else:
            break
        place += 1
    inner = tuple(words[place:])
    if not inner:
        return Wrapped(problem="it prints the environment, which may hold secrets")
    return Wrapped((inner,), transparent=harmless)


def _split_string(words: Sequence[Word]) -> Wrapped:
    text = leading(words[0])
    attached = text.partition("=")[2] if text.startswith("--") else text.partition("S")[2]
    parts = [attached] if attached else []
    parts += [word.literal or "" for word in words[1:]]
    script = " ".join(parts)
    reason = "env -S splits text into a command"
    return Wrapped(scripts=(script,), problem=reason, danger=reason)


_SHELL_FLAGS = frozenset("celux")


def _shell(name: str, words: Sequence[Word]) -> Wrapped:
    place = 0
    takes_script = False
    plain = name in ("bash", "sh", "dash")
    while place < len(words):
        text = leading(words[place])
        if not text.startswith(("-", "+")) or text == "-":
            break
        if words[place].literal is None:
            plain = False
        if text == "--":
            place += 1
            break
        if text.startswith("--"):
            plain = False
            if text in ("--rcfile", "--init-file"):
                place += 1
        else:
            letters = set(text[1:])
            takes_script |= "c" in letters and text.startswith("-")
            value = words[place + 1].literal if place + 1 < len(words) else None
            if letters & {"o", "O"}:
                plain &= letters <= _SHELL_FLAGS | {"o"} and value == "pipefail"
                place += 1
            else:
                plain &= letters <= _SHELL_FLAGS and text.startswith("-")
        place += 1
    rest = words[place:]
    if not takes_script:
        if not rest or rest[0].literal in ("-", "/dev/stdin"):
            return Wrapped(problem=f"{name} runs what it reads")
        return _file_run(rest)
    script = rest[0].literal if rest else None
    if script is None:
        return Wrapped(problem="the inner script is not known before it runs")
    return Wrapped(scripts=(script,), transparent=plain)


def _file_run(words: Sequence[Word]) -> Wrapped:
    """A script in a file needs a rule that names it; one that nobody knows asks always."""
    if not words or words[0].literal is None:
        return Wrapped(problem="the script it runs is not known before it runs")
    return Wrapped()


def _eval(words: Sequence[Word]) -> Wrapped:
    script = _joined(words)
    if script is None:
        return Wrapped(problem="what `eval` runs is not known before it runs")
    return Wrapped(scripts=(script,), problem="`eval` runs text")


def _trap(words: Sequence[Word]) -> Wrapped:
    script = words[0].literal if words else None
    scripts = (script,) if script and not script.startswith("-") else ()
    if words and leading(words[0]).startswith("-") and len(words) > 1:
        scripts = (words[1].literal or "",)
    return Wrapped(scripts=scripts, problem="`trap` runs a command later")


def _find(words: Sequence[Word]) -> Wrapped | None:
    commands = tuple(inner_commands(words))
    return Wrapped(commands) if commands else None


def _with_script_option(words: Sequence[Word]) -> Wrapped:
    """`su -c`, `script -c`, `flock … -c`: a string that a shell runs."""
    scripts = []
    for index, word in enumerate(words):
        text = word.literal or ""
        name, equals, value = text.partition("=")
        if name in ("--command", "--session-command") and equals:
            scripts.append(value)
        elif name in ("--command", "--session-command") or (
            text.startswith("-") and not text.startswith("--") and text.endswith("c")
        ):
            scripts.append(words[index + 1].literal or "" if index + 1 < len(words) else "")
        elif text.startswith("-c") and len(text) > 2:
            scripts.append(text[2:])
    return Wrapped(_every_tail(words), tuple(scripts))


def _tar(words: Sequence[Word]) -> Wrapped | None:
    scripts = []
    for index, word in enumerate(words):
        text = word.literal or ""
        name, _, value = text.partition("=")
        following = words[index + 1].literal or "" if index + 1 < len(words) else ""
        if name.startswith("--checkpoint-a"):
            scripts.append((value or following).removeprefix("exec="))
        elif name.startswith(("--to-c", "--use-c", "--info-s", "--new-v", "--rsh", "--rmt")):
            scripts.append(value or following)
        elif text.startswith("-") and not text.startswith("--") and text.endswith(("I", "F")):
            scripts.append(following)
        elif text.startswith(("-I", "-F")):
            scripts.append(text[2:])
    return Wrapped(scripts=tuple(scripts)) if scripts else None


def _git(words: Sequence[Word]) -> Wrapped | None:
    """Aliases and settings given on the command line may be shell text."""
    scripts = []
    for index, word in enumerate(words[:-1]):
        value = words[index + 1].literal or ""
        if word.literal == "-c" and "=" in value:
            scripts.append(value.partition("=")[2].lstrip("!"))
    return Wrapped(scripts=tuple(scripts)) if scripts else None


def _ssh(words: Sequence[Word]) -> Wrapped:
    """The remote command, for deny rules; what is left of it runs elsewhere."""
    from dsh_permission.programs.writers import ssh_danger

    tails = _every_tail(words)
    scripts = tuple(text for text in map(_joined, tails) if text)
    return Wrapped(tails, scripts, danger=ssh_danger(words))


def _package_runner(words: Sequence[Word]) -> Wrapped:
    return Wrapped(_every_tail(words))


_SPECIAL: Mapping[str, Callable[[Sequence[Word]], Wrapped | None]] = {
    "command": _command,
    "source": _file_run,
    ".": _file_run,
    "env": _env,
    "eval": _eval,
    "trap": _trap,
    "find": _find,
    "su": _with_script_option,
    "script": _with_script_option,
    "flock": _with_script_option,
    "runuser": _with_script_option,
    "tar": _tar,
    "git": _git,
    "ssh": _ssh,
    "docker": _package_runner,
    "podman": _package_runner,
    "kubectl": _package_runner,
    "npx": _package_runner,
    "uvx": _package_runner,
    "pipx": _package_runner,
    "uv": _package_runner,
    "poetry": _package_runner,
    "pipenv": _package_runner,
}
