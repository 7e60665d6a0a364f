"""Random shell scripts, and what bash really runs when it is given them.

The programs in them are stubs that write their names into a log. Nothing else is on the path but a
few tools that run others, so a script can do no more than make small files in its own folder.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

STUBS = ("rm", "curl", "zap")
TOOLS = """
bash sh env nice timeout nohup xargs find cat sed awk true false sort head tee time stdbuf
setsid grep printf echo ls touch
"""
SECONDS = 10


@dataclass(frozen=True)
class Outcome:
    """Which stubs ran, and which files appeared or changed."""

    ran: frozenset[str]
    changed: frozenset[str]


class Stage:
    """A folder with stubs and tools, in which scripts are run one after the other."""

    def __init__(self, folder: Path):
        self.work = folder / "work"
        self._folder = folder
        self._tools = folder / "tools"
        self._tools.mkdir()
        self._runs = 0
        for name in TOOLS.split():
            found = shutil.which(name)
            if found is not None:
                (self._tools / name).symlink_to(found)
        self._clean()

    def run(self, script: str) -> Outcome:
        """Run a script, and put the folder back as it was."""
        before = self._files()
        stubs, log = self._stubs()
        with subprocess.Popen(
            ["/bin/bash", "--noprofile", "--norc", "-c", script],
            cwd=self.work,
            env={"PATH": f"{stubs}:{self._tools}", "HOME": str(self.work), "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_limited,
        ) as process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(SECONDS)
            with contextlib.suppress(ProcessLookupError):  # what it left in the background
                os.killpg(process.pid, 9)
        changed = {name for name, text in self._files().items() if before.get(name) != text}
        ran = frozenset(log.read_text().split())
        shutil.rmtree(stubs)
        if changed:
            self._clean()
        return Outcome(ran, frozenset(changed))

    def _stubs(self) -> tuple[Path, Path]:
        """Make stubs for one run: what an earlier one left running writes into its own log."""
        self._runs += 1
        folder, log = self._folder / f"stubs{self._runs}", self._folder / f"log{self._runs}"
        folder.mkdir()
        log.touch()
        for name in STUBS:
            stub = folder / name
            stub.write_text(f'#!/bin/sh\necho {name} >> "{log}"\n')
            stub.chmod(0o755)
        return folder, log

    def _files(self) -> dict[str, bytes]:
        paths = (Path(root) / name for root, _, names in os.walk(self.work) for name in names)
        return {str(path.relative_to(self.work)): path.read_bytes() for path in paths}

    def _clean(self) -> None:
        shutil.rmtree(self.work, ignore_errors=True)
        (self.work / "src").mkdir(parents=True)
        (self.work / "a").write_text("one\ntwo\n")
        (self.work / "src/b").write_text("three\n")


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (2, 2))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))


class Scripts:
    """Makes random scripts; the same seed makes the same ones."""

    def __init__(self, seed: int):
        self._random = random.Random(seed)
        self._makers: list[Callable[[int], str]] = [
            self._list, self._pipe, self._group, self._loop, self._condition, self._case,
            self._function, self._wrapped, self._inner_script, self._redirected, self._here,
            self._assigned, self._expanding, self._expanding, self._stub, self._stub, self._reader,
        ]  # fmt: skip

    def script(self) -> str:
        """Return one script; every third is broken in a small way."""
        text = self._command(3)
        if self._random.random() < 0.35:
            text = self._mutated(text)
        return text

    def _one(self, *options: str) -> str:
        return self._random.choice(options)

    def _command(self, depth: int) -> str:
        if depth <= 0:
            return self._stub(0) if self._random.random() < 0.6 else self._reader(0)
        return self._random.choice(self._makers)(depth - 1)

    # ----------------------------------------------------------------------------- leaves

    def _name(self) -> str:
        name = self._random.choice(STUBS)
        style = self._random.randrange(12)
        middle = self._random.randrange(1, len(name))
        left, right = name[:middle], name[middle:]
        return {
            0: f"{left}''{right}", 1: f'{left}""{right}', 2: f"\\{name}", 3: f"'{name}'",
            4: f'"{name}"', 5: f"{left}\\{right}", 6: f"$'{name}'", 7: f'$"{name}"',
            8: "$'\\x" + format(ord(name[0]), "x") + f"{name[1:]}'", 9: f'{left}"{right}"',
        }.get(style, name)  # fmt: skip

    def _word(self, depth: int = 1) -> str:
        style = self._random.randrange(16)
        if depth > 0 and style < 7:
            inner = self._command(depth - 1)
            return self._one(
                f"$({inner})", f'"$({inner})"', f"`{self._flat(inner)}`", f"<({inner})",
                f"${{x:-$({inner})}}", f'"a ${{x-`{self._flat(inner)}`}}"', f"$(( $({inner}) ))",
                f"${{x#$({inner})}}", f"${{x/$({inner})/b}}", f"x=$({inner})", f"'$({inner})'",
                f"${{x:+$({inner})}}", f'"\\$({inner})"', f"$'$({inner})'", f"${{y[$({inner})]}}",
            )  # fmt: skip
        return self._one(
            "a", "src/b", "-n", "$x", '"$x"', "*", "'rm'", '"; rm"', "\\;", "x=1", "{a,b}", "~",
            "''", "'a b'", "$HOME", "--", "#rm", "a#rm", "!", "[a]", "$'\\n'", "rm",
        )  # fmt: skip

    @staticmethod
    def _flat(text: str) -> str:
        return text.replace("\\", "\\\\").replace("`", "\\`").replace("$", "\\$")

    def _words(self, depth: int) -> str:
        words = [self._word(depth) for _ in range(self._random.randrange(3))]
        return "".join(self._one(" ", "  ", "\t", " \\\n ") + word for word in words)

    def _stub(self, depth: int) -> str:
        return self._name() + self._words(depth)

    def _reader(self, depth: int) -> str:
        program = self._one("echo", "printf", "cat", "true", "ls", "head", "grep x", ":", "sort")
        return program + self._words(depth)

    # -------------------------------------------------------------------------- structure

    def _list(self, depth: int) -> str:
        between = self._one(";", " && ", "||", "\n", " & ", ";\n", " ; # rm x\n", " &&\n")
        return self._command(depth) + between + self._command(depth)

    def _pipe(self, depth: int) -> str:
        return self._command(depth) + self._one("|", " | ", " |& ", " |\n") + self._command(depth)

    def _group(self, depth: int) -> str:
        inner = self._command(depth)
        return self._one(
            f"({inner})", f"{{ {inner}; }}", f"! {inner}", f"( {inner} ) & wait", f"time {inner}",
            f"time -p {inner}", f"coproc {{ {inner}; }}; wait", f"{{ {inner}\n}}", f"! ! {inner}",
            f"! {{ {inner}; }}",
        )  # fmt: skip

    def _loop(self, depth: int) -> str:
        inner, word = self._command(depth), self._word(depth)
        stub = self._random.choice(STUBS)
        return self._one(
            f"for i in 1 {word}; do {inner}; done", f"for i in {stub}; do $i x; done",
            f"while {inner}; do break; done", f"until {inner}; do break; done",
            f"for ((i=0;i<1;i++)); do {inner}; done", f"for c in ls {stub}; do $c; done",
            f"select i in a; do {inner}; break; done < a",
            f"echo a | while read l; do {inner}; done",
        )  # fmt: skip

    def _condition(self, depth: int) -> str:
        inner, other, word = self._command(depth), self._command(depth), self._word(depth)
        return self._one(
            f"if {inner}; then {other}; fi", f"if false; then :; else {inner}; fi",
            f"if false; then :; elif {inner}; then {other}; fi", f"[[ -n {word} ]] && {inner}",
            f"[ a = a ] && {inner}", f"[[ a =~ {word} ]]; {inner}", f"test -n {word} || {inner}",
        )  # fmt: skip

    def _case(self, depth: int) -> str:
        inner, word = self._command(depth), self._word(depth)
        return self._one(
            f"case {word} in *) {inner};; esac", f"case a in {word}) ;; *) {inner};; esac",
            f"case a in a) : ;& b) {inner};; esac", f"case a in (a) {inner};; esac",
        )  # fmt: skip

    def _function(self, depth: int) -> str:
        inner = self._command(depth)
        return self._one(
            f"f() {{ {inner}; }}; f", f"function f {{ {inner}; }}; f", f"f() ({inner}); f",
            f"ls() {{ {inner}; }}; ls", f"trap '{inner.replace(chr(39), '')}' EXIT",
            f"alias ls={self._random.choice(STUBS)}\nls",
        )  # fmt: skip

    def _wrapped(self, depth: int) -> str:
        inner = self._stub(depth)
        wrapper = self._one(
            "env", "env A=b", "env -u A", "env --", "env -i PATH=$PATH", "nice", "nice -n 5",
            "nohup",
            "timeout 5", "timeout -k 1 5", "timeout --signal=KILL 5", "command",
            "command --", "builtin command", "exec", "exec -a x", "setsid", "stdbuf -oL", "xargs",
            "xargs -n1", "echo a | xargs", "A=b", "A=$x B=c", "find a -exec", "env -S",
        )  # fmt: skip
        if wrapper == "find a -exec":
            return f"find a -exec {inner} {{}} {self._one(chr(92) + ';', '+')}"
        if wrapper == "env -S":
            return f"env -S '{inner.replace(chr(39), '')}'"
        return f"{wrapper} {inner}"

    def _inner_script(self, depth: int) -> str:
        inner = self._command(depth)
        double = inner.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
        double = double.replace("`", "\\`")
        single = inner.replace("'", "'\\''")
        shell = self._one("bash -c", "sh -c", "bash -xc", "bash -o pipefail -c", "eval", "bash -ec")
        stub = self._random.choice(STUBS)
        return self._one(
            f"{shell} '{single}'", f'{shell} "{double}"', f"bash <<< '{single}'",
            f"bash <<'E'\n{inner}\nE\n", f"awk 'BEGIN{{system(\"{stub} x\")}}'",
            f"awk 'BEGIN{{\"{stub} x\" | getline}}'", f"sed '1e {stub} x' a", f"echo {stub} | bash",
            f"sed 's/.*/{stub}/e' a", f"source <(echo {stub})", f"$(echo {stub}) x",
            f"x={stub}; $x a", f"bash -c '$0 x' {stub}", f"bash -c '\"$@\"' _ {stub}",
            f"printf -v x {stub}; $x", f"echo ${{x:={stub}}}; $x", f"set -- {stub}; \"$@\"",
        )  # fmt: skip

    def _redirected(self, depth: int) -> str:
        inner, word = self._command(depth), self._word(depth)
        redirect = self._one(
            "> new", ">> new", ">| new", "2> new", "&> new", "&>> new", ">& new", "<> new", "1>new",
            "< a", "2>&1", "> /dev/null", "2>/dev/null", "{fd}> new", "3> new", f"> >({inner})",
            f"< <({inner})", f"<<< {word}", "> new 2>&1", ">new <a",
        )  # fmt: skip
        return self._one(f"{inner} {redirect}", f"{redirect} {self._stub(0)}")

    def _here(self, depth: int) -> str:
        inner = self._command(depth)
        return self._one(
            f"cat <<E\n$({inner})\nE\n", f"cat <<'E'\n$({inner})\nE\n", f"cat <<E; {inner}\nx\nE\n",
            f"cat <<-E\n\t`{self._flat(inner)}`\n\tE\n", f"cat <<\\E\n$({inner})\nE\n{inner}",
            f"cat <<E | {inner}\nx\nE\n", f'cat <<"E"\n`x`\nE\n{inner}', f"cat <<E\nE\n{inner}",
            f"cat <<A <<B\n$({inner})\nA\n`{self._flat(inner)}`\nB\n",
        )  # fmt: skip

    def _assigned(self, depth: int) -> str:
        inner = self._command(depth)
        return self._one(
            f"x=$({inner})", f"x=`{self._flat(inner)}`", f"export x=$({inner})",
            f"declare x=$({inner})", f"x[$({inner})]=1", f"x=([0]=$({inner}))", f"x+=$({inner})",
            f"LANG=$({inner}) ls", f"readonly y=$({inner})", f"let 'x=1+1'; {inner}",
        )  # fmt: skip

    def _expanding(self, depth: int) -> str:
        return f"{self._one('echo', ':', 'cat', 'printf %s')} {self._word(2)}{self._words(depth)}"

    def _mutated(self, text: str) -> str:
        for _ in range(self._random.randrange(1, 3)):
            place = self._random.randrange(len(text) + 1)
            what = self._one(
                "'", '"', "\\", "$", "`", "(", ")", "{", "}", ";", "&", "|", "\n", "#", " ", "<",
                ">",
                "!", "\\\n", "$(", "${", "[", "]", "*", "=", "''", "\t", "\r", "$'", "((", "<<E\n",
            )  # fmt: skip
            end = place + self._one("x", "").__len__()
            text = text[:place] + what + text[end:]
        return text
