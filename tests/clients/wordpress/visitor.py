"""A browser's part: pages, forms and cookies."""

from __future__ import annotations

import http.cookiejar
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

_PATIENCE_S = 300


@dataclass(frozen=True)
class Page:
    """What came back, redirections followed.

    Attributes:
        status: of HTTP.
        url: where it was found at last.
        text: HTML, JSON or XML.
    """

    status: int
    url: str
    text: str

    def shows(self, *texts: str) -> bool:
        """Whether it was found, and has them all."""
        return self.status < 300 and all(text in self.text for text in texts)


class Visitor:
    """An HTTP session, with cookies of its own.

    Attributes:
        pages: how many it has been given.
    """

    def __init__(self, site: str) -> None:
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), cookies)
        self._site = site
        self.pages = 0

    def get(self, path: str) -> Page:
        """Load a page; the path is relative to the front page."""
        return self._open(path)

    def post(self, path: str, form: Mapping[str, str]) -> Page:
        """Send a form."""
        return self._open(path, urllib.parse.urlencode(form).encode())

    def call(
        self, method: str, path: str, nonce: str, body: Mapping[str, str] | None = None
    ) -> Page:
        """Call WordPress's REST API as the user who is logged in.

        Args:
            method: of HTTP.
            path: of the API, as ``/wp/v2/posts``.
            nonce: what the session was given for calls.
            body: the arguments.
        """
        headers = {"Content-Type": "application/json", "X-WP-Nonce": nonce}
        return self._open(f"?rest_route={path}", json.dumps(body or {}).encode(), headers, method)

    def _open(
        self,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
        method: str | None = None,
    ) -> Page:
        url = self._site + path
        request = urllib.request.Request(url, body, dict(headers), method=method)  # noqa: S310 http
        self.pages += 1
        try:
            with self._opener.open(request, timeout=_PATIENCE_S) as response:
                return Page(response.status, response.url, response.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return Page(error.code, error.url or "", error.read().decode())
