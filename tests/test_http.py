import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from wire_server import WireServer, plain

from dsh_core import http
from dsh_core.errors import ConfigError
from dsh_core.http import STREAMS_PER_CLIENT, ClientPool, library

LIBRARIES = ["httpx", "httpx2"]


@pytest.fixture(params=LIBRARIES)
def forced(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("DSH_HTTP", request.param)
    name: str = request.param
    return name


@pytest.fixture
def unforced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DSH_HTTP", raising=False)


@pytest.mark.parametrize("module", ["dsh_core.http", "dsh_core.adapters.openai_chat"])
def test_importing_imports_no_http_library_and_no_pydantic(module: str) -> None:
    code = (
        f"import sys, {module}\n"
        "print([n for n in ('httpx', 'httpx2', 'httpcore', 'pydantic', 'pydantic_core')"
        " if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_variable_decides_which_library_is_used(forced: str) -> None:
    assert library().__name__ == forced


def test_httpx2_is_preferred_and_httpx_stands_in(
    unforced: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert library().__name__ == "httpx2"
    monkeypatch.setitem(sys.modules, "httpx2", None)
    assert library().__name__ == "httpx"


def test_a_library_that_is_not_installed_is_named_with_its_command(
    forced: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, forced, None)
    with pytest.raises(ConfigError, match=f"pip install {forced}"):
        library()


def test_a_library_that_is_installed_but_broken_is_not_passed_over(
    unforced: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "httpx2.py").write_text("import a_dependency_that_is_gone")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "httpx2", raising=False)
    with pytest.raises(ModuleNotFoundError, match="a_dependency_that_is_gone"):
        library()


def test_another_name_in_the_variable_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSH_HTTP", "aiohttp")
    with pytest.raises(ConfigError, match="DSH_HTTP: 'aiohttp' is no HTTP library"):
        library()


async def test_a_few_streams_share_a_client_and_clients_are_kept(forced: str) -> None:
    pool = ClientPool()
    rounds = []
    for _ in range(3):
        loans = [pool.lend() for _ in range(2 * STREAMS_PER_CLIENT + 1)]
        clients = [loan.__enter__() for loan in loans]
        counts = sorted(clients.count(client) for client in set(clients))
        assert counts == [1, STREAMS_PER_CLIENT, STREAMS_PER_CLIENT]
        rounds.append(set(clients))
        for loan in loans:
            loan.__exit__(None, None, None)
    assert rounds[0] == rounds[1] == rounds[2]
    await pool.aclose()


async def test_a_loan_ends_when_its_request_fails(forced: str) -> None:
    pool = ClientPool(streams_per_client=1)
    with pytest.raises(ValueError, match="x"), pool.lend() as first:
        raise ValueError("x")
    with pool.lend() as second:
        assert second is first
    await pool.aclose()


async def test_closing_ends_idle_connections_and_lends_no_more(forced: str) -> None:
    async with WireServer(plain({}), plain({})) as server:
        pool = ClientPool(tls=False, streams_per_client=1)
        with pool.lend() as one, pool.lend() as two:
            await asyncio.gather(one.get(server.url), two.get(server.url))
        assert server.connections == len(server.open) == 2
        await pool.aclose()
        while server.open:
            await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="closed"), pool.lend():
            pass
        await pool.aclose()


async def test_a_connection_is_used_again_by_the_next_loan(forced: str) -> None:
    async with WireServer(*[plain({})] * 3) as server:
        pool = ClientPool(tls=False)
        for _ in range(3):
            with pool.lend() as client:
                await client.get(server.url)
        assert server.connections == 1
        await pool.aclose()


async def test_a_proxy_of_the_environment_is_used(
    forced: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with WireServer(plain({})) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        pool = ClientPool(tls=False)
        with pool.lend() as client:
            await client.get("http://api.invalid/v1")
        assert proxy.asked[0].path == "http://api.invalid/v1"
        await pool.aclose()


async def test_a_proxy_that_cannot_be_used_is_the_users_mistake(
    forced: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", "gopher://127.0.0.1:1")
    pool = ClientPool(tls=False)
    with pytest.raises(ConfigError, match="proxy"), pool.lend():
        pass
    await pool.aclose()


def test_certificates_that_are_none_are_the_users_mistake(forced: str, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(ConfigError, match=r"ca\.pem"):
        ClientPool(verify=str(tmp_path / "ca.pem"))


async def test_a_pool_without_tls_trusts_no_certificate(forced: str) -> None:
    pool = ClientPool(tls=False)
    assert pool._context.cert_store_stats()["x509_ca"] == 0
    assert pool._context.verify_mode.name == "CERT_REQUIRED"
    await pool.aclose()


async def test_certificates_are_checked_unless_switched_off(forced: str, tmp_path: Path) -> None:
    assert ClientPool()._context.verify_mode.name == "CERT_REQUIRED"
    assert ClientPool(verify=str(tmp_path))._context.verify_mode.name == "CERT_REQUIRED"
    assert ClientPool(verify=False)._context.verify_mode.name == "CERT_NONE"


async def test_reading_has_no_limit_of_its_own(forced: str) -> None:
    pool = ClientPool(connect_seconds=3)
    with pool.lend() as client:
        timeout = client.timeout
        assert (timeout.connect, timeout.read) == (3, None)
        assert timeout.write == http.WRITE_SECONDS
    await pool.aclose()
