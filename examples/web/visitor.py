"""A visitor who adds messages and looks for them on both application servers alternately."""

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
        messages: the messages, newest first.
        role: the role of the server that the list was read from: `primary` or `replica`.
        level: the consistency level at which the list was read.
        proof: the proof that allowed that server to answer.
    """

    messages: Sequence[str]
    role: str
    level: str
    proof: str


@dataclass(slots=True)
class Visit:
    """The result of a visit.

    Attributes:
        pages: how many pages were looked at.
        stale: how many of them lacked a message that the visitor had added before.
        roles: how many lists came from servers of each role.
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
        """The cookie that carries the token."""
        return next((cookie for cookie in self._cookies if cookie.name == COOKIE), None)

    def look(self, url: str) -> Page:
        """Read the page."""
        return self._open(url)

    def add(self, url: str, text: str) -> Page:
        """Send the form; returns the page that the server then shows."""
        form = urllib.parse.urlencode({"text": text}).encode()
        return self._open(urllib.parse.urljoin(url, "messages"), form)

    def _open(self, url: str, form: bytes | None = None) -> Page:
        with self._browser.open(url, form, _PATIENCE_S) as response:
            text = response.read().decode()
        answer = _ANSWER.search(text)
        if answer is None:
            raise ValueError(f"{url} does not show the list of messages")
        return Page([html.unescape(found) for found in _MESSAGE.findall(text)], *answer.groups())


def visit(urls: Sequence[str], rounds: int, looks: int) -> Visit:
    """Add messages, and after each look for all messages so far.

    Args:
        urls: URLs of the application servers; messages are added to each server in turn.
        rounds: how many messages to add.
        looks: how many pages to look at after each, beginning at the server that shows the form's
            result, then the next one.
    """
    visitor = Visitor()
    done = Visit()
    own_texts: set[str] = set()
    for number in range(rounds):
        text = f"message {number} of visit {id(visitor):x}"
        pages = [visitor.add(urls[number % len(urls)], text)]
        own_texts.add(text)
        pages += [
            visitor.look(urls[(number + 1 + current) % len(urls)]) for current in range(looks - 1)
        ]
        for page in pages:
            done.pages += 1
            done.stale += not own_texts <= set(page.messages)
            done.roles[page.role] += 1
    return done
