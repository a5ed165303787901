"""Tokens: good, bad, and of transactions that are gone."""

import time

import pytest

from protocol.gtid import GtidSet
from routing.consistency.causal_token import MAX_TOKEN, TokenKeys, sign, verify
from routing.consistency.decision import LostPolicy, Scope
from tests.faults.client import (
    Client,
)
from tests.faults.proxy_fixture import ProxyFixture
from tests.faults.table_fixture import (
    COUNT,
    FOREIGN,
    FOREVER,
    IN_TRANS,
    KEY,
    KEYS,
    LEVELS,
    OLD,
    apply,
    count,
    execute,
    expect_refusal,
    table_fixture,
    value,
)


async def token_of(client: Client) -> str:
    token = await value(client, "token")
    assert token is not None
    return token.decode()


def required(proxy: ProxyFixture) -> list[GtidSet]:
    """What each session, and each wide scope, has to see."""
    sessions = [session.state.own_scope for session in proxy.shared.sessions]
    return [scope.everything for scope in (*sessions, *proxy.shared.scopes.states())]


@pytest.mark.parametrize("level", LEVELS)
async def test_a_token_carries_a_write_to_another_session(level: str) -> None:
    async with table_fixture(**KEYS) as proxy:
        writer, reader = await proxy.session(), await proxy.session(user="other", password="word")
        assert await count(reader) == 0
        await execute(writer, f"SET tidegate_consistency = '{level}'")
        await execute(writer, "INSERT INTO t VALUES (1)")
        token = await token_of(writer)
        await execute(reader, f"SET tidegate_consistency = '{level}'")
        await execute(reader, f"SET tidegate_token = '{token}'")
        assert await count(reader) == (level != "BEST_EFFORT")
        await execute(reader, "SET tidegate_consistency = DEFAULT")
        assert await count(reader) == 1
        assert token_of_same(await token_of(reader), token)


async def test_no_token_stands_for_what_was_not_logged() -> None:
    async with table_fixture(**KEYS) as proxy:
        client, other = await proxy.session(), await proxy.session()
        await execute(client, "SET sql_log_bin = 0")
        await execute(client, "INSERT INTO t VALUES (1)")
        await execute(client, "SET sql_log_bin = 1")
        assert await count(client) == 1
        assert await count(other) == 0
        await expect_refusal(client, "SELECT @@tidegate_token", "without a GTID")
        await token_of(other)
        assert proxy.count("tidegate_unlogged_writes_total") == 1


def token_of_same(token: str, other: str) -> bool:
    keys = TokenKeys((KEY,))
    return verify(other, 0, keys) <= verify(token, 0, keys)


@pytest.mark.parametrize("scope", ["user", "application", "proxy"])
async def test_a_token_counts_in_the_scope_that_it_was_given_to(scope: str) -> None:
    async with table_fixture(**KEYS) as proxy:
        writer = await proxy.session(user="other", password="word")
        first, second = await proxy.session(), await proxy.session()
        for client in (first, second):
            await execute(client, f"SET tidegate_application = 'shop', tidegate_scope = '{scope}'")
            assert await count(client) == 0
        direct = await proxy.direct()
        await execute(direct, "INSERT INTO t VALUES (1)")
        await execute(writer, "SET tidegate_consistency = 'STRONG'")
        assert await count(writer) == 1
        foreign = sign(proxy.cluster.primary.gtids.executed, FOREVER, TokenKeys((OLD,)))
        assert await count(second) == 0, "nobody knows of the write"
        await execute(first, f"SET tidegate_token = '{foreign}'")
        assert await count(second) == 1
        assert await count(first) == 1


async def test_a_token_and_the_scope_for_it_in_one_statement() -> None:
    async with table_fixture(**KEYS) as proxy:
        direct = await proxy.direct()
        first, second = await proxy.session(), await proxy.session()
        for client in (first, second):
            assert await count(client, "/* tidegate scope=user */") == 0
        await execute(direct, "INSERT INTO t VALUES (1)")
        token = sign(proxy.cluster.primary.gtids.executed, FOREVER, TokenKeys((KEY,)))
        await execute(first, f"SET tidegate_token = '{token}', tidegate_scope = 'user'")
        assert await count(second) == 0
        assert await count(second, "/* tidegate scope=user */") == 1


async def test_a_token_inside_a_transaction() -> None:
    async with table_fixture(**KEYS) as proxy:
        writer, reader = await proxy.session(), await proxy.session()
        await execute(writer, "BEGIN")
        await execute(writer, "INSERT INTO t VALUES (1)")
        answer = await writer.query("SELECT @@tidegate_token")
        assert answer.ok.status & IN_TRANS
        await execute(writer, "COMMIT")
        token = await token_of(writer)
        await execute(reader, "BEGIN")
        assert (await reader.query(f"SET tidegate_token = '{token}'")).ok.status & IN_TRANS
        await execute(reader, "COMMIT")
        assert await count(reader) == 1


async def test_bad_tokens_change_nothing() -> None:
    async with table_fixture(**KEYS) as proxy:
        client = await proxy.session()
        await execute(client, "INSERT INTO t VALUES (1)")
        good = await token_of(client)
        gtids = GtidSet.parse(f"{FOREIGN}:1-5")
        keys = TokenKeys((KEY,))
        bad = [
            *(good[:length] for length in range(0, len(good), 7)),
            *(good[:at] + ("A" if good[at] != "A" else "B") + good[at + 1 :] for at in range(50)),
            good + "A",
            good + "=",
            good + "\\n",
            good.upper(),
            " " + good,
            good * 2,
            "A" * (MAX_TOKEN + 1),
            "ü" * 40,
            "a\\0b",
            sign(gtids, FOREVER, TokenKeys((b"the key of another proxy",))),
            sign(gtids, 1, keys),
            sign(gtids, int(time.time()), keys),
        ]
        before = required(proxy)
        (session,) = proxy.shared.sessions
        rules = session.state.rules
        for token in bad:
            for sql in (
                f"SET tidegate_token = '{token}'",
                f"SET tidegate_token = '{good}', tidegate_token = '{token}'",
                f"SET tidegate_scope = 'user', tidegate_token = '{token}'",
            ):
                error = (await client.query(sql)).error
                assert error.code == 1231
                assert len(token) < 8 or token[:20] not in error.message
        assert required(proxy) == before
        assert session.state.rules == rules
        assert not len(proxy.shared.scopes)
        for value in ("NULL", "5", "DEFAULT", "CONCAT('a')"):
            assert (await client.query(f"SET tidegate_token = {value}")).error.code == 1231
        # Nobody looks into what is so long: it is a server that refuses it.
        assert (await client.query(f"SET tidegate_token = '{'A' * 100_000}'")).error.code == 1193
        await execute(client, f"SET tidegate_token = '{good}'")


async def test_there_are_no_tokens_without_a_key() -> None:
    async with table_fixture() as proxy:
        client = await proxy.session()
        token = sign(GtidSet.parse(f"{FOREIGN}:1"), FOREVER, TokenKeys((KEY,)))
        await expect_refusal(client, "SELECT @@tidegate_token", "token-key-file")
        await expect_refusal(client, f"SET tidegate_token = '{token}'", "token-key-file")
        rows = (await client.query("SHOW VARIABLES LIKE 'tidegate_%'")).rows
        assert b"tidegate_token" not in [name for name, _ in rows]
        await execute(client, "SET tidegate_consistency = 'BEST_EFFORT'")
        await expect_refusal(client, "SELECT @@tidegate_token", "token-key-file")


async def test_a_set_that_is_too_long_for_a_token() -> None:
    async with table_fixture(**KEYS) as proxy:
        client = await proxy.session()
        (session,) = proxy.shared.sessions
        numbers = ":".join(str(number) for number in range(1, 6000, 2))
        session.state.own_scope.own = GtidSet.parse(f"{FOREIGN}:{numbers}")
        await expect_refusal(client, "SELECT @@tidegate_token", "too large")
        assert (await client.query("SELECT 1")).value == b"1"


@pytest.mark.parametrize("policy", list(LostPolicy))
@pytest.mark.parametrize("level", LEVELS[1:5])
async def test_a_token_with_transactions_that_the_primary_does_not_have(
    level: str, policy: LostPolicy
) -> None:
    async with table_fixture(**KEYS, on_lost_writes=policy) as proxy:
        apply(proxy, True)
        client = await proxy.session()
        await execute(client, f"SET tidegate_consistency = '{level}'")
        assert await count(client) == 0
        lost = sign(GtidSet.parse(f"{FOREIGN}:1-5:7"), FOREVER, TokenKeys((KEY,)))
        await execute(client, f"SET tidegate_token = '{lost}'")
        if policy is LostPolicy.ERROR:
            error = (await client.query(COUNT)).error
            assert error.code == 1105
            assert f"{FOREIGN}:1-5:7" in error.message
            assert "once" in error.message
        for _ in range(3):
            assert await count(client) == 0
        assert proxy.statements("replica", "read", "ok") >= 3
        assert proxy.statements("wait_timeout") == 0
        assert proxy.count("tidegate_lost_transactions_total") == 6
        ((_, _, known, _, _, named, _),) = (await client.query("SHOW TIDEGATE SCOPES")).rows
        assert (known, named) == (b"yes", f"{FOREIGN}:1-5:7".encode())
        # Again: lost again, and told again.
        await execute(client, f"SET tidegate_token = '{lost}'")
        if policy is LostPolicy.ERROR:
            assert (await client.query(COUNT)).error.code == 1105
        assert await count(client) == 0


async def test_what_is_lost_is_told_to_one_reader_of_a_scope() -> None:
    async with table_fixture(**KEYS, scope=Scope.USER) as proxy:
        first, second = await proxy.session(), await proxy.session()
        for client in (first, second):
            assert await count(client) == 0
        lost = sign(GtidSet.parse(f"{FOREIGN}:1"), FOREVER, TokenKeys((KEY,)))
        await execute(first, f"SET tidegate_token = '{lost}'")
        assert (await second.query(COUNT)).error.code == 1105
        assert await count(first) == 0
        assert await count(second) == 0
        third = await proxy.session()
        assert await count(third) == 0


async def test_what_is_lost_does_not_hold_a_write_or_a_transaction_up() -> None:
    async with table_fixture(**KEYS) as proxy:
        client = await proxy.session()
        lost = sign(GtidSet.parse(f"{FOREIGN}:1"), FOREVER, TokenKeys((KEY,)))
        await execute(client, f"SET tidegate_token = '{lost}'")
        await execute(client, "INSERT INTO t VALUES (1)")
        await execute(client, "BEGIN")
        await client.query(COUNT)
        await execute(client, "INSERT INTO t VALUES (2)")
        await execute(client, "COMMIT")
        answers = [await client.query(COUNT) for _ in range(3)]
        errors = [answer for answer in answers if answer.packets[-1][0] == 0xFF]
        assert len(errors) <= 1
        assert answers[-1].value == b"2"
