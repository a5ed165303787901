"""The web example: who carries a token sees what they wrote, at either application server."""

import asyncio
import http.client
import threading
import urllib.parse
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager

import pytest

from examples.web import __main__ as example
from examples.web.stage import Stage, application_servers, late_cluster, stage
from examples.web.token_cookie import COOKIE
from examples.web.visitor import Visitor
from protocol.gtid import EMPTY
from routing.consistency.causal_token import TokenKeys, sign, verify

LAG_S = 2.0
BUDGET = "100ms"
"""So short that no test waits for a replica: what the replicas lack is read from the primary."""


@pytest.fixture(scope="module")
def running() -> Iterator[Stage]:
    """Two proxies before late replicas, on an event loop in another thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    context = _running()
    try:
        yield asyncio.run_coroutine_threadsafe(context.__aenter__(), loop).result()
        closing = context.__aexit__(None, None, None)
        asyncio.run_coroutine_threadsafe(closing, loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@asynccontextmanager
async def _running() -> AsyncIterator[Stage]:
    async with late_cluster(LAG_S) as servers, stage(servers, BUDGET) as found:
        yield found


@pytest.mark.not_fast
def test_the_scripted_visit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(example, "ROUNDS", 2)
    monkeypatch.setattr(example, "LOOKS", 3)
    assert example.main(["--once", "--lag", str(LAG_S), "--wait-budget", BUDGET]) == 0
    lines = capsys.readouterr().out.splitlines()
    without = next(line for line in lines if line.startswith("without tokens")).split()[2:]
    carrying = next(line for line in lines if line.startswith("with tokens")).split()[2:]
    assert without[0] == carrying[0] == "6"
    assert int(without[1]) > 0
    assert carrying[1] == "0"


def cookie_of(visitor: Visitor) -> str:
    assert visitor.cookie is not None
    return str(visitor.cookie.value)


def cookies_set(url: str, token: str, form: bytes | None = None) -> Sequence[str]:
    """The cookies that the response to a request with this token sets."""
    where = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(where.netloc, timeout=30)
    headers = {
        "Cookie": f"{COOKIE}={token}",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    connection.request("GET" if form is None else "POST", where.path, form, headers)
    response = connection.getresponse()
    response.read()
    connection.close()
    assert response.status == (200 if form is None else 303)
    return response.headers.get_all("Set-Cookie", [])


def test_tokens_that_are_not_taken(running: Stage) -> None:
    keys = TokenKeys((running.token_key,))
    with application_servers(running, tokens=True) as (first, second):
        visitor = Visitor()
        page = visitor.add(first, "<mine>")
        assert "<mine>" in page.messages
        assert page.level == "READ_OWN_WRITES"
        good = cookie_of(visitor)
        written = verify(good, 0, keys)
        assert written
        bad = {
            "altered": ("A" if good[0] != "A" else "B") + good[1:],
            "no token": "x'x",
            "too long": "x" * 5000,
            "expired": sign(EMPTY, 1, keys),
            "of another key": sign(EMPTY, 1 << 40, TokenKeys((b"k" * 16,))),
        }
        for fault, token in bad.items():
            assert visitor.cookie is not None
            visitor.cookie.value = token
            page = visitor.look(second)
            assert (fault, page.level, "<mine>" in page.messages) == (fault, "STRONG", True)
            # The new one covers what was shown, and is good at the other server.
            assert written <= verify(cookie_of(visitor), 0, keys), fault
            page = visitor.look(first)
            assert (fault, page.level, "<mine>" in page.messages) == (
                fault,
                "READ_OWN_WRITES",
                True,
            )


def test_the_cookie(running: Stage) -> None:
    with application_servers(running, tokens=True) as (first, second):
        visitor = Visitor()
        visitor.look(first)
        assert visitor.cookie is None
        visitor.add(first, "the first")
        token = cookie_of(visitor)
        # Who only reads hands out nothing, so that nothing newer is overwritten.
        assert cookies_set(second, token) == []
        (cookie,) = cookies_set(f"{second}messages", token, b"text=the+second")
        name, *attributes = cookie.split("; ")
        assert name.startswith(f"{COOKIE}=")
        assert {"HttpOnly", "SameSite=Lax"} <= set(attributes)
        keys = TokenKeys((running.token_key,))
        both = verify(name.partition("=")[2], 0, keys)
        assert verify(token, 0, keys) <= both
        assert both.count() == verify(token, 0, keys).count() + 1


def test_without_tokens_there_is_no_cookie(running: Stage) -> None:
    with application_servers(running, tokens=False) as (url, _):
        visitor = Visitor()
        visitor.add(url, "mine")
        assert visitor.cookie is None


def test_what_cannot_start_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    # Nothing listens on port 1.
    assert example.main(["--once", "--primary", "127.0.0.1:1", "--password-file", "/dev/null"]) == 1
    assert capsys.readouterr().err.startswith("examples.web: ")
