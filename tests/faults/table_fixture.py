"""A table, clients that read it, and what they are told: for tests of levels and scopes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from protocol.constants import Capability
from proxy.server.gtid_question import PROBE_SQL
from tests.faults.client import (
    BASE,
    MODERN,
    Client,
    attributed,
)
from tests.faults.proxy_fixture import ProxyFixture, proxy_fixture, statements_of

COUNT = "SELECT COUNT(*) FROM t"
KEY = b"0123456789abcdef"
OLD = b"an older key, still good"
KEYS: dict[str, Any] = {"token_keys": (KEY, OLD)}
IN_TRANS, AUTOCOMMIT, NO_BACKSLASH_ESCAPES = 0x0001, 0x0002, 0x0200
FOREIGN = "99999999-9999-9999-9999-999999999999"
FOREVER = 1 << 40

CLIENTS = {
    "neither": BASE,
    "DEPRECATE_EOF": BASE | Capability.CLIENT_DEPRECATE_EOF,
    "SESSION_TRACK": BASE | Capability.CLIENT_SESSION_TRACK,
    "both": MODERN,
    "attributes": MODERN | Capability.CLIENT_QUERY_ATTRIBUTES,
}
TWO_CLIENTS_FAST = [
    pytest.param(capabilities, id=name, marks=pytest.mark.not_fast)
    if name not in ("neither", "attributes")
    else pytest.param(capabilities, id=name)
    for name, capabilities in CLIENTS.items()
]
"""For `parametrize`: all of them, and in the fast run those who have nothing and all."""
LEVELS = [
    "BEST_EFFORT",
    "READ_OWN_WRITES",
    "MONOTONIC_READS",
    "READ_ALL_WRITES",
    "STRONG",
    "BOUNDED_STALENESS(10s)",
]


@asynccontextmanager
async def table_fixture(**options: Any) -> AsyncIterator[ProxyFixture]:
    """A table `t` that all servers have, empty; nothing is applied any more."""
    async with proxy_fixture(**{"wait_budget": 0.03, **options}) as proxy:
        direct = await proxy.direct()
        assert (await direct.query("CREATE TABLE t (id INT)")).ok
        await proxy.caught_up()
        apply(proxy, False)
        yield proxy


def apply(proxy: ProxyFixture, applying: bool) -> None:
    for replica in proxy.cluster.replicas:
        replica.applying = applying


async def count(client: Client, comment: str = "") -> int:
    value = (await client.query(comment + COUNT)).value
    assert value is not None
    return int(value)


async def execute(client: Client, sql: str) -> None:
    answer = await client.query(sql)
    assert answer.packets[-1][0] != 0xFF, answer.error


async def value(client: Client, variable: str) -> bytes | None:
    return (await client.query(f"SELECT @@tidegate_{variable}")).value


async def expect_refusal(client: Client, sql: str, message: str = "", code: int = 1231) -> None:
    error = (await client.query(sql)).error
    assert error.code == code, error
    assert message in error.message


def probes(proxy: ProxyFixture) -> int:
    return statements_of(proxy.cluster.primary).count(PROBE_SQL.decode())


async def packets_of(client: Client, sql: str) -> list[bytes]:
    if client.capabilities & Capability.CLIENT_QUERY_ATTRIBUTES:
        return (await client.command(attributed(sql, tidegatex="y"))).packets
    return (await client.query(sql)).packets
