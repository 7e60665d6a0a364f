"""The one way to HTTP: which library speaks it, and clients that stay cheap at any concurrency.

`httpx2`, the maintained successor of httpx with the same API, is used where it is installed, else
`httpx`; the environment variable `DSH_HTTP` (`httpx` or `httpx2`) insists on one. Nothing is
imported before it is asked for. Proxies and certificates from the environment work as the library
documents: https://www.python-httpx.org/environment_variables/
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from dsh_core.errors import ConfigError
from dsh_core.record import record

if TYPE_CHECKING:
    import ssl
    from types import ModuleType

    import httpx

CONNECT_SECONDS = 10.0
"""For TCP and TLS together; httpx's own 5 s are short for a far gateway that wakes up."""

WRITE_SECONDS = 300.0
"""For one request body: 10 MB of images at 300 kbit/s."""

KEEPALIVE_SECONDS = 50.0
"""An idle connection is used again within this: AWS load balancers drop theirs after 60 s, nginx
after 75 s. httpx's own 5 s cost a TLS handshake after every tool that takes longer."""

STREAMS_PER_CLIENT = 8
"""httpcore walks all requests and connections of a pool at each start and end of a request."""

_LIBRARIES = ("httpx2", "httpx")


def library() -> ModuleType:
    """Import and return `httpx2` or `httpx`.

    Raises `ConfigError` when `DSH_HTTP` names something else or what is not installed.
    """
    wanted = os.environ.get("DSH_HTTP")
    if wanted and wanted not in _LIBRARIES:
        raise ConfigError(
            f"{wanted!r} is no HTTP library",
            where="DSH_HTTP",
            remedy="Set it to httpx or httpx2, or unset it.",
        )
    for name in [wanted] if wanted else _LIBRARIES:
        try:
            return import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
    raise ConfigError(
        f"{wanted or 'httpx'} is not installed",
        where="DSH_HTTP" if wanted else None,
        remedy=f"Run: pip install {wanted or 'httpx'}",
    )


@record(frozen=False)
class _Shard:
    """A client and how many requests run on it."""

    client: httpx.AsyncClient
    streams: int = 0


class ClientPool:
    """Lends out clients, each to a few requests at a time, and keeps them for later ones.

    All share one SSL context, which takes some 30 ms to make. Belongs to one event loop.

    Args:
        connect_seconds: Limit for connecting.
        verify: Whether to check certificates; a path = a file or folder of trusted ones.
        tls: False where only `http` addresses are asked for: no certificates are loaded.
        streams_per_client: How many requests share a client.

    Raises `ConfigError` for certificates, or later a proxy, that cannot be used.
    """

    def __init__(
        self,
        *,
        connect_seconds: float = CONNECT_SECONDS,
        verify: bool | str = True,
        tls: bool = True,
        streams_per_client: int = STREAMS_PER_CLIENT,
    ):
        self._library = library()
        self._connect_seconds = connect_seconds
        self._context = _ssl_context(self._library, verify, tls)
        self._limit = streams_per_client
        self._shards: list[_Shard] = []
        self._roomy: list[_Shard] = []
        self._closed = False

    @contextmanager
    def lend(self) -> Iterator[httpx.AsyncClient]:
        """Lend a client for one request. Raises `RuntimeError` after `aclose`."""
        if self._closed:
            raise RuntimeError("the client pool is closed")
        shard = self._roomy[-1] if self._roomy else self._add_shard()
        shard.streams += 1
        if shard.streams == self._limit:
            self._roomy.remove(shard)
        try:
            yield shard.client
        finally:
            if shard.streams == self._limit:
                self._roomy.append(shard)
            shard.streams -= 1

    async def aclose(self) -> None:
        """Close every client and its connections."""
        self._closed = True
        self._roomy.clear()
        while self._shards:
            await self._shards.pop().client.aclose()

    def _add_shard(self) -> _Shard:
        http = self._library
        try:
            client = http.AsyncClient(
                verify=self._context,
                timeout=http.Timeout(
                    connect=self._connect_seconds, read=None, write=WRITE_SECONDS, pool=None
                ),
                limits=http.Limits(
                    max_connections=None,
                    max_keepalive_connections=self._limit,
                    keepalive_expiry=KEEPALIVE_SECONDS,
                ),
            )
        except (ImportError, ValueError) as error:  # SOCKS without its package, an odd scheme
            raise ConfigError(
                f"the proxy cannot be used: {error}", where="HTTP_PROXY, HTTPS_PROXY, ALL_PROXY"
            ) from error
        shard = _Shard(client)
        self._shards.append(shard)
        self._roomy.append(shard)
        return shard


def _ssl_context(http: ModuleType, verify: bool | str, tls: bool) -> ssl.SSLContext:
    import ssl

    if not tls:
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts nobody
    if isinstance(verify, str):
        is_folder = Path(verify).is_dir()
        try:
            return ssl.create_default_context(
                cafile=None if is_folder else verify, capath=verify if is_folder else None
            )
        except OSError as error:
            raise ConfigError(f"no certificates in {verify}: {error}") from error
    context: ssl.SSLContext = http.create_ssl_context(verify=verify)
    return context
