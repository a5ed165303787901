"""Logins that the proxy repeats for sessions: a password that was changed is tried once.

A session that gave its connection back logs in again with the password that its client has shown,
as does each session that reads on a replica for the first time. If the password was changed
meanwhile, each of an application's sessions would be refused, and a server with
FAILED_LOGIN_ATTEMPTS would lock the account, also for those that know the new password. So the
first refusal is remembered, and nobody is logged in with that password any more until a server
accepts it from a client. While the first one waits for the server's verdict, the others wait for
the first one. A replica may only be late with a new password, so it is asked again after a while.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

from protocol.errors import ServerErrorCode
from protocol.response import ErrPacket
from proxy.server.errors import ServerRefusedError
from routing.servers.topology import Role, Server

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from proxy.server.connection import ServerConnection
    from proxy.server.login import Login
    from proxy.server.login_cache import LoginCache

_MOST: Final = 1024
_WRONG_PASSWORD: Final = ServerErrorCode.ER_ACCESS_DENIED_ERROR.code
"""What a server counts as a failed login."""

_REPLICA_S: Final = 30.0
"""How long a replica's refusal counts."""

_Account = tuple[str, bytes]
"""A user's name and a password."""


class _Refusal(NamedTuple):
    """One server's refusal of a password.

    Attributes:
        error: with which it refused.
        at: when, monotonic s.
    """

    error: ErrPacket
    at: float


class RepeatedLogins:
    """The repeated logins of one worker."""

    def __init__(self, login_cache: LoginCache, now: Callable[[], float]) -> None:
        """What was refused is forgotten with a change of accounts that `login_cache` heard of."""
        self._login_cache = login_cache
        self._now = now
        self._refused: OrderedDict[_Account, dict[Server, _Refusal]] = OrderedDict()
        self._first: dict[tuple[Server, _Account], asyncio.Future[None]] = {}

    async def log_in(
        self, server: Server, login: Login, attempt: Callable[[], Awaitable[ServerConnection]]
    ) -> ServerConnection:
        """Log in, unless the server has refused this password.

        Raises:
            ServerRefusedError: the server refuses the login, or has done so.
            ServerUnreachableError: as `attempt`.
        """
        account = login.username, login.password
        self._check(server, account)
        first = self._first.get((server, account))
        if first is not None:
            await asyncio.wait([first])
            self._check(server, account)
            return await self._try(server, account, attempt)
        first = self._first[server, account] = asyncio.get_running_loop().create_future()
        try:
            return await self._try(server, account, attempt)
        finally:
            del self._first[server, account]
            first.set_result(None)

    async def _try(
        self, server: Server, account: _Account, attempt: Callable[[], Awaitable[ServerConnection]]
    ) -> ServerConnection:
        try:
            return await attempt()
        except ServerRefusedError as error:
            if error.error.code == _WRONG_PASSWORD:
                refused = self._refused.setdefault(account, {})
                refused[server] = _Refusal(error.error, self._now())
                if len(self._refused) > _MOST:
                    self._refused.popitem(last=False)
            raise

    def _check(self, server: Server, account: _Account) -> None:
        refused = self._refused.get(account)
        refusal = None if refused is None else refused.get(server)
        if refused is None or refusal is None:
            return
        is_old = server.role is Role.REPLICA and self._now() - refusal.at > _REPLICA_S
        if is_old or refusal.at <= self._login_cache.changed_at:
            del refused[server]
        else:
            raise ServerRefusedError(refusal.error)

    def on_accepted(self, login: Login) -> None:
        """A server has accepted this password."""
        if self._refused:
            self._refused.pop((login.username, login.password), None)
