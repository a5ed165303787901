"""Whose writes a read sees: scopes, how they are named, and how they end."""

import pytest

from protocol.constants import Capability
from protocol.response import ErrPacket
from proxy.address import Address
from proxy.config.tables import Table
from routing.consistency.adjustment import Adjustment
from routing.consistency.decision import Level, Scope
from tests.faults.client import (
    MODERN,
    PASSWORD,
    Client,
    attributed,
    change_user,
    finish_change,
    query,
)
from tests.faults.proxy_fixture import proxy_fixture
from tests.faults.table_fixture import (
    COUNT,
    apply,
    count,
    execute,
    expect_refusal,
    probes,
    table_fixture,
    value,
)


@pytest.mark.parametrize("how", ["reset", "change user", "change user to another"])
@pytest.mark.parametrize("scope", list(Scope))
async def test_what_a_pooled_connection_wrote_survives_its_reset(scope: Scope, how: str) -> None:
    attributes = {"tidegate.application": "shop"}
    async with table_fixture(scope=scope) as proxy:
        other = await proxy.session(attributes=attributes)
        client = await proxy.session(attributes=attributes)
        for reader in (other, client):
            await execute(reader, "SET tidegate_consistency = 'MONOTONIC_READS'")
            assert await count(reader) == 0
            await execute(reader, "SET tidegate_consistency = DEFAULT")
        await execute(client, "SET tidegate_consistency = 'BOUNDED_STALENESS(60m)'")
        await execute(client, "SET tidegate_wait_budget = 7, tidegate_on_timeout = 'error'")
        await execute(client, "INSERT INTO t VALUES (1)")
        if how == "reset":
            assert (await client.command(b"\x1f")).ok
        else:
            user, password = ("other", "word") if how.endswith("another") else ("app", PASSWORD)
            client.send(change_user(user, attributes=attributes))
            assert (await finish_change(client, password))[0] == 0x00
        assert await value(client, "consistency") == b"READ_OWN_WRITES"
        assert await value(client, "wait_budget") == b"30ms"
        assert await value(client, "on_timeout") == b"primary"
        assert await value(client, "application") == b"shop"
        assert await count(client) == 1
        if scope is not Scope.CONNECTION:
            assert await count(other) == 1


async def test_a_failed_change_of_user_loses_nothing_of_a_scope() -> None:
    async with table_fixture(scope=Scope.USER) as proxy:
        client = await proxy.session()
        assert await count(client) == 0
        await execute(client, "INSERT INTO t VALUES (1)")
        client.send(change_user("other"))
        assert ErrPacket.parse(await finish_change(client, "wrong")).code == 1045
        again = await proxy.session()
        assert await count(again) == 1


async def test_a_scope_of_a_user_is_no_other_users() -> None:
    async with table_fixture(scope=Scope.USER) as proxy:
        first, second = await proxy.session(), await proxy.session()
        stranger = await proxy.session(user="other", password="word")
        for client in (first, second, stranger):
            assert await count(client) == 0
        await execute(first, "INSERT INTO t VALUES (1)")
        assert await count(second) == 1
        assert await count(stranger) == 0


WAYS = ["SET", "comment", "connection attribute", "query attribute"]


@pytest.mark.parametrize("way", WAYS)
async def test_an_application_is_named(way: str) -> None:
    """Whoever names it reads with all who do, whatever way they name it."""
    capabilities = MODERN | Capability.CLIENT_QUERY_ATTRIBUTES
    async with table_fixture() as proxy:
        writer, reader, stranger = [
            await proxy.session(
                user=user,
                password=word,
                capabilities=capabilities,
                attributes={
                    "tidegate.application": name,
                    "tidegate.scope": "application",
                }
                if way == "connection attribute"
                else None,
            )
            for user, word, name in (
                ("app", PASSWORD, "shop"),
                ("other", "word", "shop"),
                ("app", PASSWORD, "blog"),
            )
        ]

        async def run(client: Client, sql: str) -> bytes | None:
            name = "blog" if client is stranger else "shop"
            if way == "comment":
                sql = f"/* tidegate scope=application application={name} */ {sql}"
            if way == "SET":
                setting = f"tidegate_application = '{name}', tidegate_scope = 'application'"
                assert (await client.command(attributed(f"SET {setting}"))).ok
            attributes = {"tidegate_scope": "application", "tidegate_application": name}
            if way != "query attribute":
                attributes = {}
            answer = await client.command(attributed(sql, **attributes))
            return answer.rows[0][0] if answer.rows else None

        for client in (writer, reader, stranger):
            assert await run(client, COUNT) == b"0"
        await run(writer, "INSERT INTO t VALUES (1)")
        assert await run(reader, COUNT) == b"1"
        assert await run(stranger, COUNT) == b"0"
        keys = sorted(scope.key for scope in proxy.shared.scopes.states())
        assert keys == ["blog", "shop"]


@pytest.mark.parametrize("end", ["error", "lost"])
async def test_what_failed_counts_for_the_application_that_the_statement_named(end: str) -> None:
    """It committed before it failed, and no packet says so (fact 2.3)."""
    comment = "/* tidegate scope=application application=shop */"
    async with table_fixture() as proxy:
        direct = await proxy.direct()
        await execute(direct, "CREATE PROCEDURE p() BEGIN INSERT INTO t VALUES (1); SELECT no; END")
        apply(proxy, True)
        await proxy.caught_up()
        apply(proxy, False)
        writer, reader = await proxy.session(), await proxy.session()
        for client in (writer, reader):
            assert await count(client, comment) == 0
        if end == "lost":
            proxy.cluster.primary.faults.drop_connection_after(0, matching=b"CALL p")
            writer.send(query(f"{comment} CALL p()"))
            assert (await writer.last_error()).code == 2013
        else:
            assert (await writer.query(f"{comment} CALL p()")).error.code == 1054
        assert await count(reader, comment) == 1


async def test_an_application_has_to_be_named() -> None:
    async with table_fixture(scope=Scope.APPLICATION) as proxy:
        client = await proxy.session()
        await expect_refusal(client, COUNT, "no application is named")
        await execute(client, "INSERT INTO t VALUES (1)")
        await expect_refusal(client, COUNT, "tidegate_application")
        assert await count(client, "/* tidegate application=shop */") == 1
        await execute(client, "SET tidegate_application = 'shop'")
        assert await count(client) == 1
        await execute(client, "SET tidegate_application = DEFAULT")
        await expect_refusal(client, COUNT)
        await execute(client, "BEGIN")
        assert (await client.query(COUNT)).error.code == 1231
        await execute(client, "ROLLBACK")


async def test_rules_by_user_schema_and_listener() -> None:
    """The later counts: listener, schema, user, connection attribute, SET, comment."""
    listeners = Table({Address("127.0.0.1", 0): Adjustment(wait_budget=0.5, scope=Scope.PROXY)})
    schemas = Table({"second": Adjustment(level=Level.STRONG, scope=Scope.USER)})
    users = Table({"other": Adjustment(scope=Scope.CONNECTION)})
    async with proxy_fixture(listeners=listeners, schemas=schemas, users=users) as proxy:
        plain = await proxy.session()
        assert await value(plain, "scope") == b"proxy"
        assert await value(plain, "wait_budget") == b"500ms"
        assert await value(plain, "consistency") == b"READ_OWN_WRITES"
        await execute(plain, "USE second")
        assert await value(plain, "scope") == b"user"
        assert await value(plain, "consistency") == b"STRONG"
        await execute(plain, "SET tidegate_scope = 'connection'")
        assert (await plain.command(b"\x02test")).ok
        assert await value(plain, "scope") == b"connection"
        assert await value(plain, "consistency") == b"READ_OWN_WRITES"
        await execute(plain, "SET tidegate_scope = DEFAULT")
        assert await value(plain, "scope") == b"proxy"
        other = await proxy.session(
            user="other",
            password="word",
            database="second",
            attributes={"tidegate.wait_budget": "1s", "tidegate": "x", "tidegatescope": "x"},
        )
        assert await value(other, "scope") == b"connection"
        assert await value(other, "consistency") == b"STRONG"
        assert await value(other, "wait_budget") == b"1000ms"
        await execute(other, "/* tidegate wait_budget=2s consistency=BEST_EFFORT */ SELECT 1")
        ((level, scope, *_),) = (await other.query("SHOW TIDEGATE LAST")).rows
        assert (level, scope) == (b"BEST_EFFORT", b"connection")


async def test_rules_by_schema_within_a_transaction() -> None:
    schemas = Table({"second": Adjustment(level=Level.MONOTONIC_READS)})
    async with table_fixture(schemas=schemas) as proxy:
        client = await proxy.session()
        assert await count(client) == 0
        await execute(client, "BEGIN")
        await execute(client, "INSERT INTO t VALUES (1)")
        await execute(client, "USE second")
        await execute(client, "COMMIT")
        assert await value(client, "consistency") == b"MONOTONIC_READS"
        assert (await client.query("SELECT COUNT(*) FROM test.t")).value == b"1"
        await execute(client, "USE test; USE second; USE test")
        assert await value(client, "consistency") == b"READ_OWN_WRITES"
        assert await count(client) == 1


async def test_scopes_are_dropped_for_want_of_room() -> None:
    async with table_fixture(scope_limit=2) as proxy:
        clients = [await proxy.session() for _ in range(3)]
        for name, client in zip("abc", clients, strict=True):
            await execute(
                client, f"SET tidegate_application = '{name}', tidegate_scope = 'application'"
            )
            assert await count(client) == 0
        assert probes(proxy) == 3
        assert [scope.key for scope in proxy.shared.scopes.states()] == ["b", "c"]
        await execute(clients[0], "INSERT INTO t VALUES (1)")
        assert await count(clients[1]) == 0
        assert probes(proxy) == 3
        # Dropped, so it is not known what was written in it: the primary is asked.
        assert await count(clients[0]) == 1
        assert probes(proxy) == 4
        assert len(proxy.shared.scopes) == 2
        assert proxy.shared.scopes.evicted == 2


async def test_scopes_are_dropped_for_their_age() -> None:
    async with table_fixture(scope=Scope.USER, scope_age=60) as proxy:
        client, other = await proxy.session(), await proxy.session()
        assert await count(client) == 0
        await execute(client, "INSERT INTO t VALUES (1)")
        (scope,) = proxy.shared.scopes.states()
        scope.used_at -= 61
        assert await count(other) == 1
        assert probes(proxy) == 2
        assert proxy.shared.scopes.evicted == 1
