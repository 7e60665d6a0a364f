"""Judging commands: rules that limit look through wrappers; what allows has to be proven."""

from __future__ import annotations

import os
from collections.abc import Iterator

from dsh_permission.actions import Access, Doubt, Fetch, Run
from dsh_permission.command_rule import Match, is_system_program, program_name
from dsh_permission.files import FileJudge
from dsh_permission.findings import Finding
from dsh_permission.offers import offer_for
from dsh_permission.paths import is_inside
from dsh_permission.policy import Policy
from dsh_permission.rule import Rule
from dsh_permission.shell.parse import commands_in_code
from dsh_permission.shell.tree import Piece, Scope, Text, Variable, Word
from dsh_permission.web import BadAddressError, host_of

_CATASTROPHIC = (
    "/", "/etc", "/usr", "/var", "/bin", "/sbin", "/lib", "/lib64", "/boot", "/dev", "/proc",
    "/sys", "/opt", "/root", "/home", "/srv",
)  # fmt: skip


NO_RULE = "no rule"


class RunJudge:
    """Judges commands by one policy."""

    def __init__(self, policy: Policy, files: FileJudge):
        self._policy = policy
        self._files = files

    def findings(self, run: Run) -> list[Finding]:
        """Judge a command and all that runs in it."""
        findings = self._whatever_allows(run)
        if run.needs_proof:
            findings.append(self._proof(run))
        return findings

    def _whatever_allows(self, run: Run) -> list[Finding]:
        """Judge what counts whether or not a rule allows the command, in all that runs in it."""
        findings = list(self._limits(run))
        findings += self._catastrophe(run)
        for inner in run.inner:
            if isinstance(inner, Run):
                findings += self._whatever_allows(inner)
            elif isinstance(inner, Access):
                findings += self._files.access(inner)
            elif isinstance(inner, (Doubt, Fetch)):
                findings += self._inner_doubt(run, inner)
        return findings

    # ------------------------------------------------------------------------- what limits

    def _limits(self, run: Run) -> Iterator[Finding]:
        for decision, rule, match in self._policy.suspects_command(run.words):
            if match is Match.YES:
                yield Finding(decision, run.text, "a rule is about it", rule)
            else:
                yield Finding("ask", run.text, "it may be what a rule is about", rule)
        yield from self._code_limits(run)
        for word in run.use.mentions:
            yield from self._files.limits_of("read", word, run.scope, run.text, is_sure=False)
        for word in (*run.use.reads, *run.use.lists) if run.use.removes else run.use.reads:
            yield from self._files.limits_of("read", word, run.scope, run.text)
            if run.use.is_recursive:
                yield from self._files.below(word, run.scope, run.text)
        for word in run.use.writes:
            yield from self._files.limits_of("write", word, run.scope, run.text)
        yield from self._url_limits(run)

    def _code_limits(self, run: Run) -> Iterator[Finding]:
        """Code of another language is only searched for what a rule names."""
        if not run.use.code or not self._policy.has_command_limits():
            return
        for text in run.use.code:
            for words in commands_in_code(text):
                for _, rule, _ in self._policy.suspects_command(words):
                    if rule.command is not None and rule.command.words:
                        why = "its code may run what a rule is about"
                        yield Finding("ask", run.text, why, rule)

    def _url_limits(self, run: Run) -> Iterator[Finding]:
        for word in run.use.urls:
            url = word.literal
            if url is None:
                if any(rule for _, rule in self._policy.about_host(None) if rule):
                    yield Finding("ask", run.text, f"{word.source!r} is not known before it runs")
                continue
            if url.lower().startswith("file:") and self._policy.limits("read", "bash"):
                yield Finding("ask", run.text, f"{url} is a file, and a rule limits what is read")
            try:
                host: str | None = host_of(url if "://" in url else f"http://{url}")
            except BadAddressError:
                host = None
            for decision, rule in self._policy.about_host(host):
                if decision != "allow":
                    yield Finding(
                        "deny" if decision == "deny" else "ask",
                        run.text,
                        "a rule is about it",
                        rule,
                    )

    def _catastrophe(self, run: Run) -> list[Finding]:
        for word in run.use.removes:
            target = self._removed(word, run.scope)
            if target is not None:
                why = f"it removes {target} and all that is below"
                return [Finding("ask", run.text, why)]
        return []

    def _removed(self, word: Word, scope: Scope) -> str | None:
        """Return what a removal would take that nobody means to remove, or None."""
        folders = scope.folders or (self._policy.workspace,)
        text = _with_known(word.pieces, scope, str(self._policy.home))
        if word.has_brace:
            text = text.partition("{")[0]
        if scope.folders is None and not text.startswith("/"):
            return f"{word.source} in a folder that is not known"
        stripped = text
        while stripped.endswith(("/*", "/.*", "/{*,.*}", "/.", "/..?*")):
            stripped = stripped.rpartition("/")[0] or "/"
        if not stripped:
            return None
        for folder in folders:
            path = os.path.realpath(os.path.join(folder, stripped))
            home, root = str(self._policy.home), str(self._policy.workspace)
            is_above = any(is_inside(one, path) for one in (os.path.realpath(home), home))
            if path in _CATASTROPHIC or is_above or (is_inside(root, path) and root != path):
                return path
        return None

    def _inner_doubt(self, run: Run, inner: Doubt | Fetch) -> list[Finding]:
        if isinstance(inner, Fetch) or not run.needs_proof:
            return []
        if self._policy.mode == "bypass" and not self._policy.has_command_limits():
            return []
        return [Finding("ask", run.text, inner.reason)]

    # -------------------------------------------------------------------------- what proves

    def _proof(self, run: Run) -> Finding:
        bypass = self._policy.mode == "bypass"
        if run.problem is not None and not (bypass and not self._policy.has_command_limits()):
            return Finding("ask", run.text, run.problem)
        if bypass:
            return Finding("allow", run.text, "the mode is bypass")
        rule = self._policy.allows_command(run.words)
        if rule is not None:
            danger = _danger(run)
            if danger is not None and not _names_all(rule, run):
                return Finding("ask", run.text, f"{danger}, which {rule.text} does not cover")
            protected = None if _names_all(rule, run) else self._protected(run)
            if protected is not None:
                return Finding("ask", run.text, protected)
            return Finding("allow", run.text, "a rule allows it", rule)
        return self._built_in(run)

    def _protected(self, run: Run) -> str | None:
        """Return which protected name a command would change under a rule that does not say so."""
        for inner in run.inner:
            if isinstance(inner, Run) and (found := self._protected(inner)):
                return found
        for word in run.use.writes:
            found = self._files.protected(word, run.scope)
            if found is not None:
                return found
        return None

    def _built_in(self, run: Run) -> Finding:
        if run.transparent:
            return self._through(run)
        unproven = self._unproven(run)
        if unproven is None:
            why = "it only reads" if run.use.read_only else "it changes files in the workspace"
            return Finding("allow", run.text, why)
        return Finding("ask", run.text, unproven, offer=offer_for(run))

    def _through(self, run: Run) -> Finding:
        for inner in run.inner:
            if isinstance(inner, Run):
                proof = self._proof(inner)
                if proof.decision != "allow":
                    return Finding("ask", inner.text, proof.why, offer=proof.offer)
        return Finding("allow", run.text, "what runs inside is allowed")

    def _unproven(self, run: Run) -> str | None:
        use = run.use
        if not is_system_program(run.words[0].literal or ""):
            return NO_RULE
        if use.read_only:
            return self._places_problem(run)
        if use.file_command and self._policy.mode == "accept_edits":
            return self._places_problem(run)
        if use.file_command and use.writes and self._all_writes_allowed(run):
            return self._places_problem(run)
        return f"{NO_RULE}; {use.problem}" if use.problem else NO_RULE

    def _all_writes_allowed(self, run: Run) -> bool:
        """`tee out/x` needs no rule of its own where a rule for edits covers the file."""
        if program_name(run.words[0].literal or "") != "tee":
            return False
        for word in run.use.writes:
            access = Access("write", word, run.text, run.scope)
            if any(finding.decision != "allow" for finding in self._files.access(access)):
                return False
        return True

    def _places_problem(self, run: Run) -> str | None:
        use = run.use
        for word in (*use.reads, *use.lists):
            if word.literal == "-":
                continue
            follows = use.follows_links
            problem = self._files.unproven("read", word, run.scope, follows=follows)
            if problem is not None:
                return problem
        for word in use.writes:
            problem = self._files.unproven("write", word, run.scope, follows=False)
            if problem is not None:
                return problem
        return None


def _danger(run: Run) -> str | None:
    """Return why a rule for a prefix does not cover a command, or what runs inside it."""
    if run.use.danger is not None:
        return run.use.danger
    for inner in run.inner:
        if isinstance(inner, Run):
            found = inner.problem if run.transparent else None
            if found := found or _danger(inner):
                return found
    return None


def _names_all(rule: Rule, run: Run) -> bool:
    """Whether a rule names every word of a command, so that nothing is left to chance."""
    return rule.command is not None and len(rule.command.words) == len(run.words)


def _with_known(pieces: tuple[Piece, ...], scope: Scope, home: str) -> str:
    """Return the text of a word, unknown parts being empty: the worst they can be."""
    parts = []
    for index, piece in enumerate(pieces):
        if isinstance(piece, Text):
            text = piece.text
            if index == 0 and not piece.quoted and (text == "~" or text.startswith("~/")):
                text = home + text[1:]
            parts.append(text)
        elif isinstance(piece, Variable):
            values = scope.value_of(piece)
            parts.append(values[0].text if values else "")
    return "".join(parts)
