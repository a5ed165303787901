"""How long the proxy relies on servers' verdicts on logins: `login-age`, or less."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from protocol.errors import ServerErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.server.verified_login import VerifiedLogin

_MOST: Final = 1024
_LONGEST_USER: Final = 96
"""Of a name, characters: a server's names have up to 32. What is remembered of a longer one, which
no server lets in, counts for all that begin alike."""

OF_ACCOUNT: Final = frozenset(
    error.code
    for error in (
        ServerErrorCode.ER_ACCESS_DENIED_ERROR,
        ServerErrorCode.ER_ACCESS_DENIED_NO_PASSWORD_ERROR,
        ServerErrorCode.ER_MUST_CHANGE_PASSWORD_LOGIN,
        ServerErrorCode.ER_ACCOUNT_HAS_BEEN_LOCKED,
        ServerErrorCode.ER_ACCOUNT_BLOCKED_BY_PASSWORD_LOCK,
    )
)
"""Errors with which a server refuses a login because of its account."""


class LoginCache:
    """What one worker relies on.

    Attributes:
        age: the longest time, s; 0 is never.
    """

    def __init__(self, age: float, now: Callable[[], float]) -> None:
        self.age = age
        self._now = now
        self._changed_at = float("-inf")
        self._refused: OrderedDict[str, float] = OrderedDict()  # when, by user name

    @property
    def changed_at(self) -> float:
        """When accounts were changed last, as far as it is known, monotonic s."""
        return self._changed_at

    def trusts(self, verified: VerifiedLogin) -> bool:
        """Whether a login like the verified one may be accepted without asking."""
        since = verified.at
        return (
            self._now() - since < self.age
            and since > self._changed_at
            and since > self._refused.get(verified.login.username[:_LONGEST_USER], self._changed_at)
        )

    def on_refused(self, username: str, code: int) -> None:
        """A server has refused a login: this user's next logins must be judged anew."""
        if not self.age or code not in OF_ACCOUNT:
            return
        name = username[:_LONGEST_USER]
        self._refused[name] = self._now()
        self._refused.move_to_end(name)
        if len(self._refused) > _MOST:
            _, self._changed_at = self._refused.popitem(last=False)

    def on_change(self) -> None:
        """Accounts, rights, or the values that sessions begin with, may have changed."""
        self._changed_at = self._now()
        self._refused.clear()
