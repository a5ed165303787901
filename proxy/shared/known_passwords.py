"""The passwords that the primary has accepted, so that a client need only prove that it knows one.

A server with caching_sha2_password keeps a digest of each password that it has seen, and lets in
every client whose scramble fits, without asking for the password itself. Some drivers send that
only over TLS, so they depend on this. The proxy has no accounts: the primary still judges each
login. What is kept here stays in memory, and goes as soon as a server refuses it or accounts are
changed.
"""

from __future__ import annotations

import hmac
from collections import OrderedDict
from typing import Final

_MOST: Final = 10_000


class KnownPasswords:
    """The passwords of one worker, by user name; the least recently used are dropped first."""

    def __init__(self, most: int = _MOST) -> None:
        """Keep at most so many."""
        self._most = most
        self._passwords: OrderedDict[str, bytes] = OrderedDict()

    def __len__(self) -> int:
        return len(self._passwords)

    def get(self, username: str) -> bytes | None:
        """What the primary accepted last, or None."""
        password = self._passwords.get(username)
        if password is not None:
            self._passwords.move_to_end(username)
        return password

    def on_accepted(self, username: str, password: bytes) -> None:
        """The primary has let this user in."""
        if not password:
            self._passwords.pop(username, None)  # nothing to show
            return
        self._passwords[username] = password
        self._passwords.move_to_end(username)
        if len(self._passwords) > self._most:
            self._passwords.popitem(last=False)

    def on_refused(self, username: str, password: bytes) -> None:
        """The primary has refused this user with this password; anybody may try a wrong one."""
        known = self._passwords.get(username)
        if known is not None and hmac.compare_digest(known, password):
            del self._passwords[username]

    def clear(self) -> None:
        """Accounts may have changed."""
        self._passwords.clear()
