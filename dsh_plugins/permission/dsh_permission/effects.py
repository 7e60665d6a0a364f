"""What actions mean in the core's words, so that other plugins judge by effects too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from dsh_core import Effect
from dsh_permission.actions import Access, Action, Doubt, Fetch, Run
from dsh_permission.command_rule import is_system_program
from dsh_permission.paths import place_of
from dsh_permission.shell.tree import Scope, Word
from dsh_permission.web import BadAddressError, host_of


def effects_of(actions: Sequence[Action], workspace: Path, home: Path) -> tuple[Effect, ...]:
    """Return the effects of actions; what is not known is an uncertain `other`."""
    found = _Effects(workspace, home)
    return tuple(dict.fromkeys(found.of(actions)))


class _Effects:
    def __init__(self, workspace: Path, home: Path):
        self._workspace = workspace
        self._home = home

    def of(self, actions: Iterable[Action]) -> Iterator[Effect]:
        for action in actions:
            match action:
                case Run():
                    yield from self._run(action)
                case Access():
                    yield from self._files(action.kind, action.word, action.scope, action.text)
                case Fetch():
                    yield _address(action.url)
                case Doubt():
                    yield Effect("other", None, certain=False, detail=action.text)

    def _run(self, run: Run) -> Iterator[Effect]:
        program = run.words[0].literal
        if run.problem is not None or program is None:
            yield Effect("other", program, certain=False, detail=run.text)
            yield from self.of(run.inner)
            return
        use = run.use
        is_harmless = use.read_only and is_system_program(program)
        if not is_harmless and not run.transparent:
            yield Effect("run", program, detail=run.text)
        for kind, words in (("read", (*use.reads, *use.lists)), ("write", use.writes)):
            for word in words:
                yield from self._files(kind, word, run.scope, run.text)
        for word in use.urls:
            yield _address(word.literal or "", run.text)
        yield from self.of(run.inner)

    def _files(self, kind: str, word: Word, scope: Scope, text: str) -> Iterator[Effect]:
        written = "read" if kind == "read" else "write"
        values = word.values(scope)
        if values is None or scope.folders is None or any(value.is_glob for value in values):
            is_certain = written == "read" and values is not None
            yield Effect("read" if kind == "read" else "write", None, is_certain, text)
            return
        for value in values:
            for folder in scope.folders:
                place = place_of(value.text, folder, self._home)
                target = place.resolved or place.spelled
                if target != "/dev/null":
                    yield Effect("read" if kind == "read" else "write", target, True, text)


def _address(url: str, text: str | None = None) -> Effect:
    try:
        host = host_of(url if "://" in url else f"http://{url}")
    except BadAddressError:
        return Effect("network", None, certain=False, detail=text or url)
    return Effect("network", host, detail=text or url)
