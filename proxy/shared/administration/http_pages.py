"""`/v1/…` on the metrics address: what SQL shows operators, as JSON, and what they may do.

Without a token everything is read only. Servers are shown to everybody who reaches the address, as
`/metrics` shows them; sessions and digests hold users, addresses and names of tables, so without a
token they are shown only to who asks from this machine, under its address: a browser that was led
here by a foreign name is told nothing. With a token (`admin-token-file`) everything needs it.
"""

from __future__ import annotations

import hmac
import json
import logging
import re
from http import HTTPStatus
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy.shared.administration.merged import merged
from proxy.shared.administration.question import MOST_TOGETHER, Question

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from wsgiref.types import StartResponse, WSGIEnvironment

    from proxy.shared.administration.merged import Merged
    from proxy.shared.administration.question import Answer, Subject

_log = logging.getLogger(__name__)

PREFIX: Final = "/v1/"
_SHOWN: Final[dict[str, Subject]] = {
    "/v1/servers": "servers",
    "/v1/sessions": "sessions",
    "/v1/digests": "digests",
}
_DRAIN: Final = re.compile(r"/v1/servers/([^/]{1,300})/(drain|undrain)")
_SESSION: Final = re.compile(r"/v1/sessions/([0-9]{1,10})")
_NO_TOKEN: Final = "the proxy has no admin-token-file, so nothing can be changed over HTTP"  # noqa: S105 no token
_LOCAL_ONLY: Final = (
    "without admin-token-file this is shown only to who asks from the proxy's own machine, by its"
    " address"
)


class _Route(NamedTuple):
    """What a request asks for: the question, and the method that it takes."""

    method: str
    question: Question


class AdministrationPages:
    """A WSGI application for the paths below `/v1/`."""

    def __init__(
        self, ask: Callable[[Question], Mapping[int, Answer | None]], token: bytes, workers: int
    ) -> None:
        """`ask` asks all workers; `token` is what clients have to show, empty if there is none."""
        self._ask = ask
        self._token = token
        self._room = MOST_TOGETHER // workers

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        """Answer a request."""
        path, method = str(environ["PATH_INFO"]), str(environ["REQUEST_METHOD"])
        route = self._route(path)
        if route is None:
            return _error(start, HTTPStatus.NOT_FOUND, "there is no such page")
        if method != route.method and not (method == "HEAD" and route.method == "GET"):
            return _error(
                start,
                HTTPStatus.METHOD_NOT_ALLOWED,
                f"want {route.method}",
                ("Allow", route.method),
            )
        if self._token:
            if not self._shows_token(environ):
                return _error(
                    start,
                    HTTPStatus.UNAUTHORIZED,
                    "want the token of admin-token-file, as Authorization: Bearer",
                    ("WWW-Authenticate", "Bearer"),
                )
        elif route.method != "GET":
            return _error(start, HTTPStatus.FORBIDDEN, _NO_TOKEN)
        elif route.question.subject != "servers" and not _is_local(environ):
            return _error(start, HTTPStatus.FORBIDDEN, _LOCAL_ONLY)
        if route.method != "GET":
            _log.info("%s %s, from %s", method, path, environ.get("REMOTE_ADDR", ""))
        found = merged(route.question, self._ask(route.question))
        return _shown(start, route.question, found)

    def _route(self, path: str) -> _Route | None:
        if path in _SHOWN:
            return _Route("GET", Question(_SHOWN[path], room=self._room))
        if path == "/v1/reload":
            return _Route("POST", Question("reload"))
        match = _DRAIN.fullmatch(path)
        if match is not None:
            subject: Subject = "drain" if match[2] == "drain" else "undrain"
            return _Route("POST", Question(subject, server=match[1]))
        match = _SESSION.fullmatch(path)
        if match is not None:
            return _Route("DELETE", Question("kill", connection_id=int(match[1])))
        return None

    def _shows_token(self, environ: WSGIEnvironment) -> bool:
        scheme, _, given = str(environ.get("HTTP_AUTHORIZATION", "")).partition(" ")
        found = given.strip().encode("latin-1", "replace")
        return hmac.compare_digest(found, self._token) and scheme.lower() == "bearer"


def _is_local(environ: WSGIEnvironment) -> bool:
    """Whether a program of this machine asks, and calls it by its address.

    A page that a browser of this machine shows may have a name of its own lead here; it would come
    with that name.
    """
    host = str(environ.get("HTTP_HOST", ""))
    name = host.rpartition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
    return _is_loopback(str(environ.get("REMOTE_ADDR", ""))) and (
        name == "localhost" or _is_loopback(name)
    )


def _is_loopback(text: str) -> bool:
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_loopback


def _shown(start: StartResponse, question: Question, found: Merged) -> Iterable[bytes]:
    if found.refusal:
        return _error(start, HTTPStatus.CONFLICT, found.refusal)
    if question.subject == "kill" and not found.rows:
        status = HTTPStatus.BAD_GATEWAY if found.notes else HTTPStatus.NOT_FOUND
        return _error(start, status, "; ".join(["there is no such session", *found.notes]))
    value: dict[str, object] = {question.subject: found.objects, "notes": list(found.notes)}
    return _json(start, HTTPStatus.OK, value)


def _error(
    start: StartResponse, status: HTTPStatus, sentence: str, *headers: tuple[str, str]
) -> Iterable[bytes]:
    return _json(start, status, {"error": sentence}, *headers)


def _json(
    start: StartResponse, status: HTTPStatus, value: object, *headers: tuple[str, str]
) -> Iterable[bytes]:
    body = json.dumps(value).encode() + b"\n"
    start(
        f"{status.value} {status.phrase}",
        [
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
            *headers,
        ],
    )
    return [body]
