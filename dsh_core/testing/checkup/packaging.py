"""What a distribution has to say of itself, and how long its import may take."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

from dsh_core.testing.checkup.finding import Finding
from dsh_core.testing.checkup.subject import Subject, core_requirement

IMPORT_LIMIT_SECONDS = 0.25
"""Of processor time, beside what the core imports anyway: every start of `dsh` pays it."""
IMPORT_ATTEMPTS = 3
SHOWN_MODULES = 3
PACKAGE_NAME = re.compile(r"[a-z][a-z0-9_]*")

MEASURE = """
import sys, time
import dsh_core.harness, dsh_core.config.load, dsh_core.plugins.settings, pydantic
sys.path[:0] = sys.argv[2:]
before, started = set(sys.modules), time.process_time()
__import__(sys.argv[1])
seconds = time.process_time() - started
roots = sorted({name.partition(".")[0] for name in set(sys.modules) - before})
print(seconds, *roots)
"""
"""Also imports what the core needs for any plugin with settings."""


def packaging_findings(subject: Subject) -> Iterator[Finding]:
    """Yield what is wrong with metadata, names and import time."""
    yield from _metadata(subject)
    yield from _names(subject)
    yield from _import_time(subject)


def _metadata(subject: Subject) -> Iterator[Finding]:
    said = subject.metadata
    if said is None:
        return
    texts = {
        "description": said.description,
        "readme": said.readme,
        "license": said.license,
        "requires-python": said.requires_python,
    }
    for key, value in texts.items():
        if not value:
            yield Finding(
                "metadata",
                f"{said.name} has no {key}",
                f"Add `{key}` to [project] in pyproject.toml.",
            )
    requirement = core_requirement(said.requirements)
    if requirement is None:
        yield Finding(
            "metadata",
            f"{said.name} does not depend on dsh-core",
            'Add dependencies = ["dsh-core>=0.1,<0.2"].',
        )
    elif "<" not in requirement and "==" not in requirement and "~=" not in requirement:
        yield Finding(
            "metadata",
            f"{said.name} takes any later dsh-core: {requirement}",
            "Give it an upper bound, as in dsh-core>=0.1,<0.2: versions go in lockstep.",
        )


def _names(subject: Subject) -> Iterator[Finding]:
    if not PACKAGE_NAME.fullmatch(subject.name):
        yield Finding(
            "name",
            f"{subject.name!r} is hard to write as a key in YAML",
            "Name the entry point with lower-case letters, digits and underscores.",
        )


def _import_time(subject: Subject) -> Iterator[Finding]:
    """Import it in a process of its own; what fails there fails again where it is said better."""
    path = [str(subject.path)] if subject.path is not None else []
    best, roots = float("inf"), ""
    for _ in range(IMPORT_ATTEMPTS):
        command = [sys.executable, "-c", MEASURE, subject.module, *path]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            return
        seconds, _, names = done.stdout.splitlines()[-1].partition(" ")
        if float(seconds) < best:
            best, roots = float(seconds), names
        if best <= IMPORT_LIMIT_SECONDS:
            return
    own = subject.module.partition(".")[0]
    others = ", ".join(name for name in roots.split() if name != own)
    yield Finding(
        "import",
        f"importing {subject.module} takes {best:.2f} s of processor time, "
        f"more than {IMPORT_LIMIT_SECONDS:g} s; it imports {others or 'nothing else'}",
        "Import what is heavy in the function that uses it.",
    )
