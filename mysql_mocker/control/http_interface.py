"""The verbs over HTTP, in JSON: for tests in any language, and for curl.

It is for programs on the same machine or in the same test network, not for browsers: requests from
web pages are refused, and so are requests that call this machine by a name that only DNS can have
given it (DNS rebinding).
"""

import asyncio
import ipaddress
import json
import re
import sys
import threading
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socket import AF_INET, AF_INET6
from socketserver import TCPServer, ThreadingMixIn
from typing import Final

from mysql_mocker.control.control import GROUPS, Control
from mysql_mocker.control.error import ControlError, Wrong, wrong_value
from mysql_mocker.control.state import Json
from mysql_mocker.control.values import whole_number

MOST_BODY: Final = 64 << 10

_STATUS: Final = {
    Wrong.NOT_THERE: HTTPStatus.NOT_FOUND,
    Wrong.UNKNOWN_NAME: HTTPStatus.BAD_REQUEST,
    Wrong.WRONG_VALUE: HTTPStatus.BAD_REQUEST,
    Wrong.WRONG_STATE: HTTPStatus.CONFLICT,
}
_SOCKET_SECONDS: Final = 10.0
_VERB_SECONDS: Final = 60.0

Body = dict[str, object]


class _RefusedError(Exception):
    """The request is answered with this status and sentence."""

    def __init__(self, status: HTTPStatus, message: str, allow: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.allow = allow


@dataclass(frozen=True, slots=True)
class _Route:
    """One kind of request.

    Attributes:
        path: its groups are the arguments of `run`, before the body.
        shown: the path as people write it.
    """

    method: str
    path: re.Pattern[str]
    shown: str
    run: Callable[[list[str], Body], Awaitable[Json]]
    status: HTTPStatus = HTTPStatus.OK


class _Routes:
    """The kinds of requests, and the methods that run them."""

    def __init__(self, control: Control) -> None:
        self._control = control
        server, number = "([a-z0-9]+)", "([0-9]{1,15})"
        rows = (
            ("GET", "/", self._state),
            ("GET", "/servers", self._state),
            ("GET", "/servers/NAME", self._server),
            ("PATCH", "/servers/NAME", self._set),
            ("GET", "/servers/NAME/statements", self._statements),
            ("POST", "/servers/NAME/disconnect", self._disconnect),
            ("GET", "/servers/NAME/faults", self._faults),
            ("POST", "/servers/NAME/faults", self._fault),
            ("DELETE", "/servers/NAME/faults", self._clear),
            ("DELETE", "/servers/NAME/faults/ID", self._clear),
            ("POST", "/promote", self._promote),
            ("POST", "/reset", self._reset),
        )
        self._all = [
            _Route(
                method,
                re.compile(shown.replace("NAME", server).replace("ID", number), re.ASCII),
                shown,
                run,
                HTTPStatus.CREATED if run == self._fault else HTTPStatus.OK,
            )
            for method, shown, run in rows
        ]

    def find(self, method: str, path: str) -> tuple[_Route, list[str]]:
        """The route of a request, and what its path names.

        Raises:
            _RefusedError: there is none.
        """
        fitting = [(route, found) for route in self._all if (found := route.path.fullmatch(path))]
        for route, found in fitting:
            if route.method == method:
                return route, list(found.groups())
        if fitting:
            allow = ", ".join(route.method for route, _ in fitting)
            raise _RefusedError(
                HTTPStatus.METHOD_NOT_ALLOWED, f"{path} knows {allow}, not {method}", allow
            )
        paths = ", ".join(dict.fromkeys(route.shown for route in self._all))
        raise _RefusedError(HTTPStatus.NOT_FOUND, f"there is no {path}; there are {paths}")

    async def _state(self, _names: list[str], body: Body) -> Json:
        _nothing_in(body)
        return {"servers": [state.as_json() for state in await self._control.state()]}

    async def _server(self, names: list[str], body: Body) -> Json:
        _nothing_in(body)
        return (await self._control.server(names[0])).as_json()

    async def _set(self, names: list[str], body: Body) -> Json:
        await self._control.set(names[0], **body)
        return await (self._state if names[0] in GROUPS else self._server)(names, {})

    async def _statements(self, names: list[str], body: Body) -> Json:
        _nothing_in(body)
        return {"statements": await self._control.statements(names[0])}

    async def _disconnect(self, names: list[str], body: Body) -> Json:
        _nothing_in(body)
        return {"disconnected": await self._control.disconnect(names[0])}

    async def _faults(self, names: list[str], body: Body) -> Json:
        _nothing_in(body)
        return {"faults": (await self._control.server(names[0])).as_json()["faults"]}

    async def _fault(self, names: list[str], body: Body) -> Json:
        return {**await self._control.fault(names[0], **body)}

    async def _clear(self, names: list[str], body: Body) -> Json:
        _nothing_in(body)
        number = whole_number("id", names[1], 1, 10**15) if len(names) > 1 else None
        await self._control.clear(names[0], number)
        return {}

    async def _promote(self, _names: list[str], body: Body) -> Json:
        server, lose = body.pop("server", None), body.pop("lose", 0)
        _nothing_in(body)
        if not isinstance(server, str):
            raise wrong_value("server", "the name of a replica, such as 'replica1'")
        return asdict(await self._control.promote(server, lose))

    async def _reset(self, _names: list[str], body: Body) -> Json:
        _nothing_in(body)
        await self._control.reset()
        return await self._state([], {})


def _nothing_in(body: Body) -> None:
    for name in body:
        raise ControlError(Wrong.UNKNOWN_NAME, f"{name}: unknown name")


def may_be_called(host: str) -> bool:
    """Whether a Host header names this machine for a program: by an address or a local name.

    A web page that reaches this machine by a changed DNS entry calls it by a name with dots.
    """
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::[0-9]{1,5})?", host, re.ASCII)
    if match is None:
        return False
    name = match[1].strip("[]")
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return re.fullmatch("[A-Za-z0-9_-]+", name, re.ASCII) is not None
    return True


class _Handler(BaseHTTPRequestHandler):
    """One client's requests."""

    server: "_Server"
    protocol_version = "HTTP/1.1"
    server_version = "tidegate-mock"
    sys_version = ""
    timeout = _SOCKET_SECONDS

    def _answer(self) -> None:
        try:
            self._check_sender()
            route, names = self.server.routes.find(self.command, self.path.partition("?")[0])
            answer = self.server.wait_for(route.run(names, self._body()))
            self._send(route.status, answer)
        except ControlError as error:
            self._send(_STATUS[error.wrong], {"error": str(error)})
        except _RefusedError as error:
            self._send(error.status, {"error": str(error)}, error.allow)

    do_GET = do_PATCH = do_POST = do_DELETE = do_PUT = do_HEAD = do_OPTIONS = _answer  # noqa: N815 - http.server's

    def _check_sender(self) -> None:
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or not may_be_called(hosts[0]):
            raise _RefusedError(
                HTTPStatus.FORBIDDEN, "call it by an IP address, localhost, or a name without dots"
            )
        site = self.headers.get("Sec-Fetch-Site", "none")
        if "Origin" in self.headers or site not in ("none", "same-origin"):
            raise _RefusedError(HTTPStatus.FORBIDDEN, "it is for programs, not for web pages")

    def _body(self) -> Body:
        if "Transfer-Encoding" in self.headers:
            raise _RefusedError(HTTPStatus.LENGTH_REQUIRED, "send a Content-Length")
        length = self.headers.get("Content-Length", "0")
        if not re.fullmatch("[0-9]{1,15}", length, re.ASCII):
            raise _RefusedError(HTTPStatus.BAD_REQUEST, "Content-Length: want a number")
        if int(length) > MOST_BODY:
            raise _RefusedError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {MOST_BODY} bytes"
            )
        raw = self.rfile.read(int(length))
        try:
            body = json.loads(raw) if raw else {}
        except (ValueError, RecursionError) as error:
            raise _RefusedError(HTTPStatus.BAD_REQUEST, f"the body is not JSON: {error}") from error
        if not isinstance(body, dict):
            raise _RefusedError(HTTPStatus.BAD_REQUEST, 'the body: want an object, such as {"a":1}')
        return body

    def _send(self, status: HTTPStatus, answer: Json, allow: str = "") -> None:
        data = json.dumps(answer, indent=2).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        if allow:
            self.send_header("Allow", allow)
        if status >= HTTPStatus.BAD_REQUEST:
            self.send_header("Connection", "close")  # its body may not have been read
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing, which would mix with a test's own output."""


class _Server(ThreadingMixIn, TCPServer):
    """Takes requests in threads of its own, and runs them in the cluster's event loop."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def __init__(
        self, address: tuple[str, int], routes: _Routes, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.routes = routes
        self._loop = loop
        self.address_family = AF_INET6 if ":" in address[0] else AF_INET
        super().__init__(address, _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Reports defects; a client that has left is none."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]  # as it came

    def wait_for(self, work: Awaitable[Json]) -> Json:
        """Runs the work in the event loop and returns its result.

        Raises:
            _RefusedError: it takes too long.
        """

        async def inside() -> Json:
            return await work

        future = asyncio.run_coroutine_threadsafe(inside(), self._loop)
        try:
            return future.result(_VERB_SECONDS)
        except TimeoutError as error:
            future.cancel()
            raise _RefusedError(
                HTTPStatus.GATEWAY_TIMEOUT, f"that takes longer than {_VERB_SECONDS:g} s"
            ) from error


class HttpInterface:
    """Listens from `start` to `stop`.

    Args:
        listen: a port on 127.0.0.1, or ``HOST:PORT``; port 0 is any that is free.

    Attributes:
        url: its address, once it listens.

    Raises:
        ControlError: `listen` is neither.
    """

    def __init__(self, control: Control, listen: str | int) -> None:
        host, _, port = str(listen).rpartition(":")
        self._host = host.strip("[]") or "127.0.0.1"
        self._port = whole_number("http", port, 0, 65535)
        self._routes = _Routes(control)
        self._server: _Server | None = None
        self.url = ""

    async def start(self) -> None:
        """Listens.

        Raises:
            OSError: the port is taken.
        """
        loop = asyncio.get_running_loop()
        try:
            self._server = _Server((self._host, self._port), self._routes, loop)
        except OSError as error:
            sentence = f"the HTTP interface cannot listen on {self._host}:{self._port}"
            raise OSError(error.errno, f"{sentence}: {error.strerror}") from error
        host = f"[{self._host}]" if ":" in self._host else self._host
        self.url = f"http://{host}:{self._server.server_address[1]}"
        thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="mysql_mocker http", daemon=True
        )
        thread.start()

    async def stop(self) -> None:
        """Ends; requests in progress get no answer."""
        if self._server is not None:
            await asyncio.to_thread(self._server.shutdown)
            self._server.server_close()
