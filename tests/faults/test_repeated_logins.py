"""A password that a server has refused is not shown to it again."""

import asyncio

import pytest

from protocol.response import ErrPacket
from proxy.server.connection import ServerConnection
from proxy.server.errors import ServerRefusedError
from proxy.server.login import Login
from proxy.server.login_cache import LoginCache
from proxy.server.repeated_logins import RepeatedLogins
from routing.servers.topology import Role, Server

PRIMARY = Server("db1:3306", Role.PRIMARY)
REPLICA = Server("db2:3306", Role.REPLICA)
LOGIN = Login("app", b"old")


class Attempts:
    """Logins that servers refuse.

    Attributes:
        count: how many reached a server.
        now: the time, s.
    """

    def __init__(self, code: int = 1045) -> None:
        self.count = 0
        self.now = 1.0
        self.login_cache = LoginCache(5.0, lambda: self.now)
        self.logins = RepeatedLogins(self.login_cache, lambda: self.now)
        self._error = ErrPacket(code, "28000", "no")

    async def log_in(self, server: Server = PRIMARY, login: Login = LOGIN) -> None:
        with pytest.raises(ServerRefusedError) as refused:
            await self.logins.log_in(server, login, self._attempt)
        assert refused.value.error == self._error

    async def _attempt(self) -> ServerConnection:
        self.count += 1
        await asyncio.sleep(0)
        raise ServerRefusedError(self._error)


async def test_those_that_come_at_once_wait_for_the_first() -> None:
    attempts = Attempts()
    await asyncio.gather(*(attempts.log_in() for _ in range(5)))
    await attempts.log_in()
    assert attempts.count == 1


async def test_another_server_or_password_is_tried() -> None:
    attempts = Attempts()
    await attempts.log_in()
    await attempts.log_in(REPLICA)
    await attempts.log_in(login=Login("app", b"new"))
    await attempts.log_in(login=Login("other", b"old"))
    assert attempts.count == 4


async def test_other_refusals_are_asked_about_again() -> None:
    attempts = Attempts(code=3118)
    for _ in range(3):
        await attempts.log_in()
    assert attempts.count == 3


async def test_it_is_tried_again_once_it_was_accepted_or_accounts_were_changed() -> None:
    attempts = Attempts()
    await attempts.log_in()
    attempts.logins.on_accepted(LOGIN)
    await attempts.log_in()
    attempts.now += 1.0
    attempts.login_cache.on_change()
    attempts.now += 1.0
    await attempts.log_in()
    assert attempts.count == 3


async def test_a_replica_may_only_have_been_late() -> None:
    attempts = Attempts()
    for server in (PRIMARY, REPLICA):
        await attempts.log_in(server)
    attempts.now += 3600.0
    for server in (PRIMARY, REPLICA):
        await attempts.log_in(server)
    assert attempts.count == 3


async def test_whoever_waits_goes_on_if_the_first_one_leaves() -> None:
    attempts = Attempts()
    first = asyncio.create_task(attempts.log_in())
    second = asyncio.create_task(attempts.log_in())
    await asyncio.sleep(0)  # the first one is with the server
    first.cancel()
    await second
    assert attempts.count == 2
