"""Where requests go: address, headers and connections, made when the first request needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsh_core.adapters.openai_chat.failures import Failures
from dsh_core.adapters.openai_chat.options import Options
from dsh_core.errors import ConfigError
from dsh_core.http import ClientPool, library
from dsh_core.secrets import Secrets

if TYPE_CHECKING:
    import httpx


class Endpoint:
    """One address and what every request to it shares.

    Args:
        options: The checked settings.
        key: For the `Authorization` header; None = no such header.
        key_setting: Where the key comes from, for the message when it is refused.
        secrets: What no message may repeat.

    Raises `ConfigError` for an address, a proxy or certificates that cannot be used.
    """

    def __init__(self, options: Options, key: str | None, key_setting: str, secrets: Secrets):
        self.failures = Failures(options.url, key_setting, secrets)
        self.http = library()
        try:
            self._url = self.http.URL(options.url)
        except self.http.InvalidURL as error:
            raise ConfigError(f"{self.failures.url} is no address: {error}") from error
        self.pool = ClientPool(
            connect_seconds=options.connect_seconds,
            verify=options.verify,
            tls=options.url.startswith("https:"),
        )
        headers = {
            "accept": "text/event-stream, application/json",
            "accept-encoding": "identity",  # a compressed stream is a buffered one
            "content-type": "application/json",
            "user-agent": "dsh-core",
        }
        if key is not None:
            headers["authorization"] = f"Bearer {key}"
        headers |= options.headers
        sample = self.http.Request("POST", self._url, headers=headers, content=b"")
        del sample.headers["content-length"]
        self._headers = sample.headers.raw

    def request(self, body: bytes) -> httpx.Request:
        """Return a POST of `body`, without the work that is the same for each."""
        length = (b"Content-Length", b"%d" % len(body))
        request: httpx.Request = self.http.Request(
            "POST", self._url, headers=[*self._headers, length], stream=self.http.ByteStream(body)
        )
        return request
