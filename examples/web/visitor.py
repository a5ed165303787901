"""A visitor who adds messages and looks for them on both application servers in turns."""

from __future__ import annotations

import html
import re
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.cookiejar import Cookie, CookieJar
from typing import Final

from examples.web.token_cookie import COOKIE

_MESSAGE: Final = re.compile(r'<li id="message-\d+">(.*?)</li>', re.DOTALL)
_ANSWER: Final = re.compile(r"read from the (\w+)\s+\S+ at (\w+), proof: (\w+)")
_PATIENCE_S: Final = 30


@dataclass(frozen=True, slots=True)
class Page:
    """What the visitor was shown.

    Attributes:
        messages: newest first.
        role: of the server that the list was read from: `primary` or `replica`.
        level: that the list was read at.
        proof: what allowed that server to answer.
    """

    messages: Sequence[str]
    role: str
    level: str
    proof: str


@dataclass(slots=True)
class Visit:
    """What came of a visit.

    Attributes:
        pages: that were looked at.
        stale: those that lacked a message which the visitor had added before.
        roles: how many lists came from each kind of server.
    """

    pages: int = 0
    stale: int = 0
    roles: Counter[str] = field(default_factory=Counter)


class Visitor:
    """A browser: it follows redirections and keeps cookies."""

    def __init__(self) -> None:
        self._cookies = CookieJar()
        self._browser = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(self._cookies)
        )

    @property
    def cookie(self) -> Cookie | None:
        """The one that carries the token."""
        return next((cookie for cookie in self._cookies if cookie.name == COOKIE), None)

    def look(self, url: str) -> Page:
        """Read the page."""
        return self._open(url)

    def add(self, url: str, text: str) -> Page:
        """Send the form; gives the page that the server then shows."""
        form = urllib.parse.urlencode({"text": text}).encode()
        return self._open(urllib.parse.urljoin(url, "messages"), form)

    def _open(self, url: str, form: bytes | None = None) -> Page:
        with self._browser.open(url, form, _PATIENCE_S) as response:
            text = response.read().decode()
        answer = _ANSWER.search(text)
        if answer is None:
            raise ValueError(f"{url} shows something else")
        return Page([html.unescape(found) for found in _MESSAGE.findall(text)], *answer.groups())


def visit(urls: Sequence[str], rounds: int, looks: int) -> Visit:
    """Add a message and look for all so far, as often as it is said.

    Args:
        urls: of the application servers; messages are added to each in turns.
        rounds: messages to add.
        looks: pages to look at after each, the next server first.
    """
    visitor = Visitor()
    done = Visit()
    mine: set[str] = set()
    for number in range(rounds):
        text = f"message {number} of visit {id(visitor):x}"
        pages = [visitor.add(urls[number % len(urls)], text)]
        mine.add(text)
        pages += [visitor.look(urls[(number + 1 + turn) % len(urls)]) for turn in range(looks - 1)]
        for page in pages:
            done.pages += 1
            done.stale += not mine <= set(page.messages)
            done.roles[page.role] += 1
    return done
