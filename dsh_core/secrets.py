"""What must never be written: known secrets, and every form in which they could stand in a text.

A harness has one list, `harness.secrets`. The core adds what its providers hold (key, secret
headers, password and secret parameters of the address) and every secret in a plugin's settings. Who
writes text somewhere (a log, a file, a screen, a child's environment) sends it through `scrub`.
"""

from __future__ import annotations

import dataclasses
import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit, urlunsplit

from dsh_core.errors import UserError
from dsh_core.secret import Secret

STARS = "***"

SHORTEST_CHARACTERS = 8
"""A shorter secret stands in other text by chance; it is recognised only as a whole value."""

_PLACEHOLDERS = frozenset(
    {"anything", "dummy-key", "lm-studio", "no-key-needed", "no-key-required", "not-needed"}
    | {"not-required", "placeholder", "sk-no-key-required"}
)
"""What the manuals of local servers put where a key is demanded: no secrets, but common words."""

_NAME = re.compile(
    r"(api|access|private)[-_]?key|token$|secret|passw|passphrase|authori|cookie|credent"
)
_HEADER = re.compile("auth|cookie|credent|key|passw|secret|signature|token")
_VARIABLE = re.compile(
    r"(?:^|_)(?:API)?(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(?:_|$)", re.IGNORECASE
)
_PARAMETER = re.compile(r"auth|cred|key|pass|secret|sig|token|^code$", re.IGNORECASE)
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/?#]", re.IGNORECASE)
_HEADERS = "headers."
_LINE_CHARACTERS = 16
_MASKED = r"[\w-]{0,32}\*{3,}[\w-]{0,32}"
"""A key as some servers repeat it: both ends, stars between."""


class Secrets:
    """Known secrets, by their text. Adding is for good: what was in use may still be written.

    Safe to use from any thread.

    Args:
        texts: The first ones.
    """

    __slots__ = ("_begun", "_forms", "_known")

    def __init__(self, texts: Iterable[str] = ()):
        self._known: frozenset[str] = frozenset()
        self._forms: tuple[str, ...] = ()
        self._begun: re.Pattern[str] | None = None
        self.add(*texts)

    def add(self, *secrets: str | Secret) -> None:
        """Know these too; blanks around a secret are no part of it, and an empty one is none."""
        texts = {each.reveal() if isinstance(each, Secret) else each for each in secrets}
        new = {text.strip() for text in texts if text.strip()} - self._known
        if not new:
            return
        self._known |= new
        forms = {form for text in self._known if _tells(text) for form in _forms(text)}
        self._forms = tuple(sorted(forms, key=lambda form: (-len(form), form)))
        self._begun = None

    def add_from(self, settings: object) -> None:
        """Know every secret in a plugin's settings, or in any data: see `secrets_in`."""
        self.add(*secrets_in(settings))

    def scrub(self, text: str) -> str:
        """Return a text with stars in place of every known secret of at least 8 characters.

        Found in plain text, in JSON, percent-encoded and in base64, also as a part of what was
        encoded. JSON stays JSON. A secret that is cut in two is not found: scrub whole texts.
        """
        for form in self._forms:
            if form in text:
                text = text.replace(form, STARS)
        return text

    def scrub_excerpt(self, text: str) -> str:
        """Do the same for words of a server, which may show a part: what begins like a secret goes.

        What looks like the masked form of any key (`sk-ab****yz`) goes too.
        """
        text = self.scrub(text)
        if self._begun is None:
            heads = {re.escape(each[:SHORTEST_CHARACTERS]) for each in self._known if _tells(each)}
            begun = [rf"{head}[^\s\"',;<>()]*" for head in sorted(heads)]
            self._begun = re.compile("|".join([*begun, _MASKED]))
        return self._begun.sub(STARS, text)

    @contextmanager
    def kept_out(self) -> Iterator[None]:
        """Take them out of a `UserError` that leaves the block: it is printed as it is."""
        try:
            yield
        except UserError as error:
            error.scrub(self.scrub)
            raise

    def begun_at_end(self, text: str) -> int:
        """Return how many characters at the end of a text may be the beginning of a secret.

        For text that comes in pieces: what begins there is to be held back until more has come.
        """
        longest = 0
        for form in self._forms:
            for length in range(min(len(form) - 1, len(text)), longest, -1):
                if text.endswith(form[:length]):
                    longest = length
                    break
        return longest

    def found_in(self, text: str) -> bool:
        """Whether a text is a known secret, however short, or holds one."""
        return text.strip() in self._known or any(form in text for form in self._forms)


def secrets_in(data: object, name: str = "") -> Iterator[str]:
    """Yield the secrets in settings: a dataclass, a pydantic model, a mapping, a list, a value.

    A secret is what a `Secret` or pydantic's `SecretStr` or `SecretBytes` holds, a text whose key
    says so (`token`, `api_key`; below `headers` any header's name that does), and the password of
    an address.
    """
    parts = _words if name.startswith(_HEADERS) else _lines
    if isinstance(data, Secret):
        yield from parts(data.reveal())
    elif callable(reveal := getattr(data, "get_secret_value", None)):
        text = reveal()
        yield from parts(text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text))
    elif isinstance(data, str):
        header = name.removeprefix(_HEADERS)
        if is_secret_name(name) or (header != name and is_secret_header(header)):
            yield from parts(data)
        yield from secrets_in_url(data)
    else:
        for key, value in _parts(data):
            is_header = name == "headers" and isinstance(data, Mapping)
            yield from secrets_in(value, f"{_HEADERS}{key}" if is_header else key or name)


def secrets_in_url(text: str) -> Iterator[str]:
    """Yield the password and the secret parameters of an address; nothing for another text.

    As written and decoded. A user without a password is a token.
    """
    if not _ADDRESS.match(text):
        return
    try:
        parts = urlsplit(text)
    except ValueError:
        return
    if userinfo := parts.netloc.rpartition("@")[0]:
        password = userinfo.partition(":")[2]
        yield from {unquote(each) for each in (userinfo, password or userinfo)}
        yield from {userinfo, password or userinfo}
    for name, value in parse_qsl(parts.query):
        if _PARAMETER.search(name):
            yield value


def shown_url(text: str) -> str:
    """Return an address as it may be shown: stars for a password and for every parameter.

    Other text is returned as it is, but for a password before a host without a scheme.
    """
    if not _ADDRESS.match(text):
        return re.sub(r"^([^\s/:@]*):[^\s/@]+@", rf"\1:{STARS}@", text)
    try:
        parts = urlsplit(text)
    except ValueError:
        return STARS
    userinfo, at, host = parts.netloc.rpartition("@")
    user, colon, _ = userinfo.partition(":")
    shown = f"{user}:{STARS}" if colon else STARS
    query = re.sub(r"(^|[&;])([^=&;]*)=[^&;]+", rf"\1\2={STARS}", parts.query)
    if parts.query and "=" not in parts.query:
        query = STARS
    netloc = f"{shown}@{host}" if at else host
    return urlunsplit(parts._replace(netloc=netloc, query=query, fragment=""))


def is_secret_name(name: object) -> bool:
    """Whether a setting's name says that its text must not be shown."""
    return isinstance(name, str) and _NAME.search(name.lower()) is not None


def is_secret_header(name: object) -> bool:
    """Whether a header's name says so."""
    return isinstance(name, str) and _HEADER.search(name.lower()) is not None


def is_secret_variable(name: str) -> bool:
    """Whether an environment variable's name says so."""
    return _VARIABLE.search(name) is not None


def _parts(data: object) -> Iterator[tuple[str, object]]:
    """Yield what data is made of, with the names of the parts where they have some."""
    if dataclasses.is_dataclass(data) and not isinstance(data, type):
        for field in dataclasses.fields(data):
            yield field.name, getattr(data, field.name, None)
    elif isinstance(data, Mapping):
        for key, value in data.items():
            yield str(key), value
    elif isinstance(data, (list, tuple, set, frozenset)):
        for value in data:
            yield "", value
    elif hasattr(type(data), "model_fields"):
        yield from vars(data).items()


def _lines(text: str) -> Iterator[str]:
    """Yield a text, and each long line of one that has several, as a private key does."""
    yield text
    lines = text.splitlines()
    if len(lines) > 1:
        yield from (line for line in lines if len(line) >= _LINE_CHARACTERS and line[0] != "-")


def _words(text: str) -> Iterator[str]:
    """Yield a text and the parts of it that are secrets themselves: `Bearer KEY`, `session=KEY`."""
    yield text
    words = re.split(r"[\s;,]+", text)
    for word in words:
        value = word.partition("=")[2]
        for part in (word if len(words) > 1 else "", value):
            if len(part) >= SHORTEST_CHARACTERS:
                yield part


def _tells(text: str) -> bool:
    return len(text) >= SHORTEST_CHARACTERS and text.lower() not in _PLACEHOLDERS


def _forms(text: str) -> Iterator[str]:
    """Yield how a secret may stand in a text."""
    yield text
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]
    for encoded in (quote(text, safe="", errors="replace"), quote_plus(text, errors="replace")):
        yield encoded
        yield re.sub("%..", lambda match: match[0].lower(), encoded)
    yield from _base64_forms(text.encode("utf-8", "replace"))


def _base64_forms(data: bytes) -> Iterator[str]:
    """Yield what stays of data in base64, wherever it begins in what was encoded.

    Six bits make a character, so characters at the edges depend on the neighbours; they are left
    out. https://datatracker.ietf.org/doc/html/rfc4648#section-4 and section 5 for the alphabets.
    """
    for before in range(3):
        code = b64encode(bytes(before) + data).decode()
        form = code[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
        yield form
        yield form.replace("+", "-").replace("/", "_")
