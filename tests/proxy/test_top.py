"""`tidegate top`: what it shows of a proxy's pages."""

import http.server
import io
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console

from proxy import cli, top
from proxy.top import Proxy, UnavailableError, View, frame

SERVER = {"server": "db1:3306", "role": "primary", "state": "up", "lag_ms": None, "connections": 3}
DIGEST = {
    "digest": "ab",
    "text": "SELECT\x1b[31m ?",
    "count": 10,
    "latency_sum_ms": 50.0,
    "latency_max_ms": 9.0,
    "replica_share": 0.5,
    "waits": 1,
    "errors": 0,
}
SESSIONS = [
    {
        "id": 7,
        "user": "[red]app",
        "waiting_for": "GTIDs of the replica",
        "since": "2026-01-01T10:11:12.5Z",
    },
    {"id": 8, "user": "idle", "waiting_for": None},
]


class Pages:
    """A proxy's pages, as the test sets them: path to status and body."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[int, Any]] = {
            "/v1/servers": (200, {"servers": [SERVER], "notes": []}),
            "/v1/digests": (200, {"digests": [DIGEST], "notes": ["worker 1 does not answer"]}),
            "/v1/sessions": (200, {"sessions": SESSIONS, "notes": ["worker 1 does not answer"]}),
        }
        self.tokens: set[str | None] = set()
        pages = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                pages.tokens.add(self.headers["Authorization"])
                status, value = pages.pages[self.path]
                body = value if isinstance(value, bytes) else json.dumps(value).encode()
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                return

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def pages() -> Iterator[Pages]:
    pages = Pages()
    yield pages
    pages.stop()


def text(view: View, before: View | None = None) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(frame(view, before))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_view(pages: Pages) -> None:
    shown = text(View.of(Proxy(pages.url)))
    for word in ("db1:3306", "primary", "up", "50%", "5.00", "GTIDs of the replica", "10:11:12.5"):
        assert word in shown, word
    assert "Sessions that wait: 1 of 2" in shown
    assert "[red]app" in shown
    assert "\x1b" not in shown
    assert shown.count("worker 1 does not answer") == 1


def test_rates() -> None:
    def view(at: float, count: int, took: float, name: str = "ab") -> View:
        digest = {**DIGEST, "digest": name, "text": name, "count": count, "latency_sum_ms": took}
        return View(at, [], [digest], [], [])

    assert "20.00" in text(view(12.0, 50, 60.0), view(10.0, 10, 50.0))
    assert "2.50" in text(view(12.0, 5, 60.0), view(10.0, 10, 50.0)), "a worker was started anew"
    assert "25.00" in text(view(12.0, 50, 60.0, "new"), view(10.0, 10, 50.0))


def test_what_is_not_shown_is_a_note(pages: Pages) -> None:
    pages.pages["/v1/sessions"] = (403, {"error": "only to who asks from the proxy's own machine"})
    assert "own machine" in text(View.of(Proxy(pages.url)))
    pages.pages["/v1/servers"] = (401, {"error": "want the token"})
    with pytest.raises(UnavailableError, match="want the token"):
        View.of(Proxy(pages.url))


@pytest.mark.parametrize("page", [(404, b"nothing"), (200, b"[]"), (200, b"{}"), (200, b"\xff")])
def test_pages_of_something_else(pages: Pages, page: tuple[int, bytes]) -> None:
    pages.pages["/v1/servers"] = page
    with pytest.raises(UnavailableError, match="not the metrics address"):
        View.of(Proxy(pages.url))


def test_once(pages: Pages, capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    token = tmp_path / "token"
    token.write_text("0123456789abcdef\n")
    address = pages.url.removeprefix("http://")
    assert cli.main(["top", "--once", "--url", address, "--token-file", str(token)]) == 0
    assert "db1:3306" in capsys.readouterr().out
    assert pages.tokens == {"Bearer 0123456789abcdef"}
    assert top.run(Proxy("http://127.0.0.1:1"), 1.0, once=True) == 1
    assert "127.0.0.1:1" in capsys.readouterr().err
    assert cli.main(["top", "--token-file", str(tmp_path / "none")]) == 2
    assert cli.main(["top", "--interval", "0"]) == 2
