"""`make wheels`: build every distribution, install each alone, and drive it through `dsh`.

Nothing here imports the working tree: what is tested is what `pip install` gives a user.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
import zipfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CORE = "dsh-core"
TEMPLATE = "dsh_core/plugin_template/"
"""In the wheel of the core: a plugin with tests, which are content there."""
TIMEOUT_SECONDS = 300
"""For one command; the longest waits for downloads."""


class Broken(Exception):
    """A check that failed; says why."""


@dataclass(frozen=True)
class Distribution:
    """What a `pyproject.toml` promises."""

    folder: Path
    name: str
    version: str
    plugins: tuple[str, ...]

    @classmethod
    def read(cls, file: Path) -> Distribution:
        project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
        plugins = project.get("entry-points", {}).get("dsh", {})
        return cls(file.parent, project["name"], project["version"], tuple(plugins))

    @property
    def package(self) -> str:
        return self.name.replace("-", "_")


@dataclass(frozen=True)
class Drive:
    """A run of `dsh run`: the script of the model, the files before, and what they must be after.

    The run must end with the script's last reply as its answer; with `goes_on` another run must
    find what was said.
    """

    replies: Sequence[Any]
    before: Mapping[str, str] = field(default_factory=dict)
    after: Mapping[str, str] = field(default_factory=dict)
    window_tokens: int | None = None
    options: Sequence[str] = ()
    goes_on: bool = False


def calls(name: str, /, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"name": name, "arguments": arguments}]}


def after(*found: str, say: str) -> dict[str, Any]:
    """The last reply, given only where the model saw the results."""
    return {"text": say, "expect": {"contains": list(found)}}


PLAIN = Drive(["Good morning."])
DRIVES = {
    CORE: PLAIN,
    "dsh-compaction": Drive(
        [
            calls("no_such_tool", text="first " * 700),
            calls("no_such_tool", text="second " * 600),
            {"text": "Tried once.", "expect": {"last_contains": "Room is running out"}},
            after("Tried once.", say="Summed up."),
        ],
        window_tokens=2500,
    ),
    "dsh-files": Drive(
        [
            calls("grep", pattern="hello"),
            calls("read", file_path="greeting.txt"),
            calls("edit", file_path="greeting.txt", old_string="hello", new_string="goodbye"),
            calls("write", file_path="new.txt", content="new\n"),
            after("hello world", say="Edited."),
        ],
        before={"greeting.txt": "hello world\n"},
        after={"greeting.txt": "goodbye world\n", "new.txt": "new\n"},
    ),
    "dsh-hello": Drive(
        [calls("hello", name="Ada"), after("Good day, Ada!", say="Greeted.")],
    ),
    "dsh-invariants": PLAIN,  # it shows only where something else is broken
    "dsh-permission": Drive(
        [
            calls("nothing_here"),
            after("there is no tool", say="Guarded."),
        ],
    ),
    "dsh-plan-mode": Drive(
        [
            calls("exit_plan_mode", plan="# Plan"),
            after("the plan is the result", say="# Plan"),
        ],
        options=["--plan"],
    ),
    "dsh-persistence": Drive(["Good morning."], goes_on=True),
    "dsh-sandbox": PLAIN,  # it starts no commands itself
    "dsh-shell": Drive(
        [
            calls("bash", command="echo made > made.txt; echo $((6 * 7))"),
            after("42", say="Run."),
        ],
        after={"made.txt": "made\n"},
    ),
    "dsh-terminal": PLAIN,  # its chat needs a terminal: its own tests give it one
}
"""How each first-party distribution shows that it works; one without a drive fails."""


# ------------------------------------------------------------------------------- checking


class Report:
    """Prints each check as it ends, and counts. Safe from several threads."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed = 0
        self._lock = threading.Lock()

    def check(self, name: str, action: Callable[[], Any]) -> bool:
        """Run one check and print how it went; return whether it passed."""
        started = time.monotonic()
        try:
            action()
        except Exception as error:
            cause = str(error) if isinstance(error, Broken) else f"{type(error).__name__}: {error}"
            self._ended(name, started, cause)
            return False
        self._ended(name, started, None)
        return True

    def _ended(self, name: str, started: float, cause: str | None) -> None:
        with self._lock:
            seconds = time.monotonic() - started
            print(f"{'ok  ' if cause is None else 'FAIL'} {name} ({seconds:.1f} s)", flush=True)
            if cause is None:
                self.passed += 1
                return
            self.failed += 1
            print("     " + cause.strip().replace("\n", "\n     "), flush=True)


def run(command: Sequence[str | Path], **options: Any) -> str:
    """Run a command and return its output. Raises `Broken` with all it said when it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        **options,
    )
    if done.returncode != 0:
        words = " ".join(str(part) for part in command)
        raise Broken(f"{words}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def expect(condition: bool, message: str) -> None:
    if not condition:
        raise Broken(message)


# ------------------------------------------------------------------------------- the parts


def distributions() -> list[Distribution]:
    """Everything with a `pyproject.toml`, the core first."""
    files = [ROOT / "pyproject.toml", *sorted(ROOT.glob("dsh_plugins/*/pyproject.toml"))]
    files += ROOT.glob("plugin-template/pyproject.toml")
    return [Distribution.read(file) for file in files]


def build(distribution: Distribution, dist: Path) -> None:
    """Build the wheel in an environment of its own, as `pip install` from source does."""
    run([*pip(), "wheel", "--no-deps", "--wheel-dir", dist, distribution.folder])
    wheel_of(distribution, dist)


def fetch(found: Sequence[Distribution], dist: Path) -> None:
    """Download the dependencies of all of them from the index, once."""
    run([*pip(), "download", "--dest", dist, *(wheel_of(one, dist) for one in found)])


def wheel_of(distribution: Distribution, dist: Path) -> Path:
    name = f"{distribution.package}-{distribution.version}-py3-none-any.whl"
    expect((dist / name).is_file(), f"expected {name}, found {sorted(os.listdir(dist))}")
    return dist / name


def check_content(distribution: Distribution, wheel: Path) -> None:
    """A wheel holds its package, typed and licensed, and nothing else."""
    package = distribution.package
    info = f"{package}-{distribution.version}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        names = [n for n in archive.namelist() if not n.startswith(TEMPLATE)]
    for wanted in (f"{package}/__init__.py", f"{package}/py.typed", f"{info}/licenses/LICENSE"):
        expect(wanted in names, f"{wheel.name} lacks {wanted}")
    strange = [
        name
        for name in names
        if name.split("/")[0] not in (package, info)
        or {"tests", "__pycache__"} & set(name.split("/"))
        or Path(name).name.startswith(("test_", "conftest"))
    ]
    expect(not strange, f"{wheel.name} holds what does not belong there: {', '.join(strange)}")


def pip(python: Path | None = None) -> list[str]:
    """This environment's pip, for itself or for another python."""
    target = ["--python", str(python)] if python is not None else []
    quiet = ["--quiet", "--disable-pip-version-check", "--no-input"]
    return [sys.executable, "-m", "pip", *target, *quiet]


class Installed:
    """A fresh environment with some wheels, and a folder and a home to work in."""

    def __init__(self, folder: Path):
        self.bin = folder / "venv" / "bin"
        self.work = folder / "work"
        self._home = folder / "home"
        self.work.mkdir(parents=True)
        self._home.mkdir()

    def install(self, dist: Path, *wheels: Path) -> None:
        run([sys.executable, "-m", "venv", "--without-pip", self.bin.parent])
        offline = ["--no-compile", "--no-index", "--find-links", dist]
        run([*pip(self.bin / "python"), "install", *offline, *wheels], cwd=self.work)

    def dsh(self, *arguments: str | Path) -> str:
        """Run the console script, without a key and without anything of this environment."""
        env = {"HOME": str(self._home), "PATH": f"{self.bin}{os.pathsep}{os.defpath}"}
        return run([self.bin / "dsh", *arguments], cwd=self.work, env=env)


def check_new(installed: Installed) -> None:
    """The template came with the wheel, and makes a plugin."""
    installed.dsh("plugins", "new", "word_count")
    made = installed.work / "dsh-word-count"
    for name in ("pyproject.toml", "dsh_word_count/__init__.py", ".github/workflows/tests.yml"):
        expect((made / name).is_file(), f"the new plugin lacks {name}")


def check_version(installed: Installed, version: str) -> None:
    said = installed.dsh("--version").strip()
    expect(said == f"dsh {version}", f"`dsh --version` says {said!r}, not {version}")


def check_plugins(installed: Installed, distribution: Distribution) -> None:
    """Its plugins are found by their entry points, and everything there is works."""
    rows = {row["name"]: row for row in json.loads(installed.dsh("plugins", "--json"))}
    for name in distribution.plugins:
        expect(name in rows, f"`dsh plugins` does not list {name}: {', '.join(rows)}")
        found = (rows[name]["distribution"], rows[name]["version"])
        expect(found == (distribution.name, distribution.version), f"{name} comes from {found}")
    off = {name: row for name, row in rows.items() if row["state"] != "on"}
    expect(not off, f"not on: {json.dumps(off, indent=2)}")


def check_drive(installed: Installed, drive: Drive) -> None:
    for name, text in drive.before.items():
        (installed.work / name).write_text(text, encoding="utf-8")
    model = {"context_window_tokens": drive.window_tokens} if drive.window_tokens else {}
    provider = {"adapter": "scripted", "replies": drive.replies, "models": {"script": model}}
    config = installed.work.parent / "drive.yaml"
    config.write_text(json.dumps({"providers": {"offline": provider}}), encoding="utf-8")
    answer = installed.dsh("run", "-c", config, *drive.options, "Go.").strip()
    last = drive.replies[-1]
    expected = last if isinstance(last, str) else last["text"]
    expect(answer == expected, f"the answer is {answer!r}, not {expected!r}")
    for name, text in drive.after.items():
        path = installed.work / name
        found = path.read_text(encoding="utf-8") if path.is_file() else None
        expect(found == text, f"{name} holds {found!r}, not {text!r}")
    if drive.goes_on:
        events = installed.dsh("run", "-c", config, "--json", "--continue", "And on.")
        expect('"Go."' in events and '"turn":2' in events, "`--continue` began anew")


# ------------------------------------------------------------------------------ a newcomer

TUTORIAL = ROOT / "docs" / "first-plugin.md"
MOST_COMMANDS = 8
BLOCK = re.compile(r"```(sh|diff|yaml|text)\n(.*?)```", re.S)
EDIT = """\
from pathlib import Path
path = Path({file!r})
before = path.read_text()
assert {old!r} in before, "the line to edit is not there"
path.write_text(before.replace({old!r}, {new!r}))
"""


def check_newcomer(dist: Path, core: Path, folder: Path) -> None:
    """Do what the tutorial says, from an empty folder and the built wheel only."""
    blocks = BLOCK.findall(TUTORIAL.read_text(encoding="utf-8"))
    commands = [line for kind, text in blocks if kind == "sh" for line in text.splitlines()]
    expect(len(commands) <= MOST_COMMANDS, f"the tutorial has {len(commands)} commands")
    script = "".join(f"{step(kind, text)}\n" for kind, text in blocks)
    work, home = folder / "work", folder / "home"
    work.mkdir(parents=True)
    home.mkdir()
    constraint = folder / "constraint.txt"
    constraint.write_text(f"dsh-core @ {core.as_uri()}\n", encoding="utf-8")
    kept = {key: value for key, value in os.environ.items() if key.startswith(("PIP_", "LANG"))}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}"
    env = {**kept, "HOME": str(home), "PATH": path, "PIP_FIND_LINKS": str(dist)}
    env |= {"PIP_CONSTRAINT": str(constraint), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    said = run(["bash", "-euo", "pipefail", "-c", f"exec 2>&1\n{script}"], cwd=work, env=env)
    (shown,) = (text for kind, text in blocks if kind == "text")
    expect(said.endswith(shown), f"the tutorial ends with\n{shown}and this run with\n{said[-800:]}")


def step(kind: str, text: str) -> str:
    """Return what does a block of the tutorial in a shell."""
    if kind == "yaml":
        return f"cat > dsh.yaml <<'END'\n{text}END"
    if kind == "diff":
        file, old, new = (line[1:] for line in text.splitlines())
        edit = EDIT.format(file=file.removeprefix("-- "), old=old, new=new)
        return f"python3 - <<'END'\n{edit}END"
    return text if kind == "sh" else ""


# ----------------------------------------------------------------------------------- main


def drive_of(distribution: Distribution) -> Drive:
    if ROOT / "dsh_plugins" in distribution.folder.parents:
        expect(distribution.name in DRIVES, f"say in DRIVES how {distribution.name} shows its work")
    return DRIVES.get(distribution.name, PLAIN)


def check_alone(report: Report, distribution: Distribution, dist: Path, folder: Path) -> None:
    """Install one distribution beside the core, and nothing else, and use it."""
    name, core = distribution.name, Distribution.read(ROOT / "pyproject.toml")
    wheels = {wheel_of(one, dist) for one in (core, distribution)}
    report.check(
        f"{name}: the wheel holds its package only",
        partial(check_content, distribution, wheel_of(distribution, dist)),
    )
    installed = Installed(folder / name)
    if not report.check(f"{name}: installs alone", partial(installed.install, dist, *wheels)):
        return
    version = partial(check_version, installed, core.version)
    report.check(f"{name}: `dsh --version`", version)
    if name == CORE:
        report.check(f"{name}: `dsh plugins new`", partial(check_new, installed))
    report.check(f"{name}: `dsh plugins`", partial(check_plugins, installed, distribution))
    report.check(
        f"{name}: `dsh run` with its tools",
        lambda: check_drive(installed, drive_of(distribution)),
    )


def main() -> int:
    report = Report()
    found = distributions()
    with tempfile.TemporaryDirectory(prefix="dsh-wheels-") as name, ThreadPoolExecutor() as pool:
        folder = Path(name)
        dist = folder / "dist"
        dist.mkdir()

        def build_one(one: Distribution) -> bool:
            return report.check(f"{one.name}: builds", partial(build, one, dist))

        is_built = all(list(pool.map(build_one, found)))
        if is_built and report.check("all: dependencies", partial(fetch, found, dist)):
            list(pool.map(lambda one: check_alone(report, one, dist, folder), found))
            core = wheel_of(Distribution.read(ROOT / "pyproject.toml"), dist)
            newcomer = partial(check_newcomer, dist, core, folder / "newcomer")
            report.check("a newcomer: docs/first-plugin.md", newcomer)
    print(f"{report.passed} passed, {report.failed} failed", flush=True)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
