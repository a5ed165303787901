"""Prepared statements: where reads run, what a server must be told first, and what goes wrong."""

from collections.abc import Mapping
from typing import Any

import pytest

from protocol.command import ComStmtExecute, ComStmtFetch, ComStmtSendLongData
from protocol.constants import Capability, Command, FieldType
from protocol.packet import frame
from protocol.parameter import QueryAttribute
from protocol.response import StmtPrepareOk
from protocol.response_stream import FETCHED, PREPARED, RESULTS, SIMPLE
from proxy.client.connection import STREAM_ABOVE
from proxy.client.requests.commands import prepared as prepared_commands
from tests.faults.client import MODERN, Answer, Client
from tests.faults.peers import err
from tests.faults.proxy_fixture import ProxyFixture, eventually, proxy_fixture, statements_of
from tests.faults.table_fixture import apply, table_fixture

ATTRIBUTES = MODERN | Capability.CLIENT_QUERY_ATTRIBUTES
SELECT = "SELECT COUNT(*) FROM t WHERE id >= ?"


def number(value: int) -> QueryAttribute:
    return QueryAttribute("", FieldType.MYSQL_TYPE_LONGLONG, value.to_bytes(8, "little"))


async def prepare(client: Client, sql: str) -> int:
    answer = await client.command(bytes((Command.COM_STMT_PREPARE,)) + sql.encode(), PREPARED)
    assert answer.packets[0][0] == 0, answer.error
    return StmtPrepareOk.parse(answer.packets[0], client.capabilities).statement_id


async def execute(
    client: Client, statement: int, *values: QueryAttribute, typed: bool = True, flags: int = 0
) -> Answer:
    attributes = bool(client.capabilities & Capability.CLIENT_QUERY_ATTRIBUTES)
    payload = ComStmtExecute.of(statement, values, flags).serialise(attributes)
    if not typed:
        bare = ComStmtExecute.parse(payload, len(values), attributes)
        payload = ComStmtExecute(
            statement, flags, bare.parameters, bare.nulls, None, bare.values
        ).serialise(attributes)
    client.send(payload)
    return await client.answer(RESULTS, text=False)


def counted(answer: Answer) -> int:
    """The one BIGINT of an answer in binary."""
    rows = [packet for packet in answer.packets[2:-1] if packet[0] == 0]
    assert answer.packets[-1][0] != 0xFF, answer.error
    return int.from_bytes(rows[0][2:10], "little")


def ran_on_replicas(proxy: ProxyFixture, text: str = "SELECT COUNT") -> int:
    return sum(
        sql.startswith(text) for replica in proxy.cluster.replicas for sql in statements_of(replica)
    )


def ran_on_primary(proxy: ProxyFixture, text: str = "SELECT COUNT") -> int:
    return sum(sql.startswith(text) for sql in statements_of(proxy.cluster.primary))


@pytest.mark.parametrize("capabilities", [MODERN, ATTRIBUTES], ids=["plain", "attributes"])
async def test_a_read_is_prepared_and_executed_on_a_replica_alone(
    capabilities: Capability,
) -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session(capabilities=capabilities)
        await client.query("CREATE TABLE t (id INT)")
        statement = await prepare(client, SELECT)
        assert counted(await execute(client, statement, number(1))) == 0
        assert counted(await execute(client, statement, number(2), typed=False)) == 0
        assert (ran_on_replicas(proxy), ran_on_primary(proxy)) == (3, 0)
        assert proxy.statements("replica", "read") == 3


async def test_an_execution_waits_for_the_session_s_own_write_in_the_same_breath() -> None:
    async with table_fixture(wait_budget=10.0) as proxy:
        client = await proxy.session()
        apply(proxy, True)
        statement = await prepare(client, SELECT)
        apply(proxy, False)
        assert (await client.query("INSERT INTO t VALUES (1)")).ok
        client.send(ComStmtExecute.of(statement, (number(0),)).serialise(False))
        replica = proxy.cluster.replicas[0]
        await eventually(lambda: any("WAIT_FOR" in sql for sql in statements_of(replica)))
        apply(proxy, True)
        assert counted(await client.answer(RESULTS, text=False)) == 1
        assert ran_on_primary(proxy) == 0
        assert proxy.statements("replica", "waited") == 1


async def test_a_replica_that_is_late_gives_the_execution_to_the_primary_with_its_types() -> None:
    async with table_fixture() as proxy:
        client = await proxy.session()
        statement = await prepare(client, SELECT)
        assert counted(await execute(client, statement, number(0))) == 0
        assert (await client.query("INSERT INTO t VALUES (7)")).ok
        assert counted(await execute(client, statement, number(7), typed=False)) == 1
        assert ran_on_primary(proxy) == 2  # PREPARE and EXECUTE
        apply(proxy, True)
        await proxy.caught_up()


async def test_ids_are_the_client_s_own() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        await client.query("CREATE TABLE t (id INT)")
        found = [
            await prepare(client, sql)
            for sql in ("INSERT INTO t VALUES (?)", SELECT, "INSERT INTO t VALUES (1)", SELECT)
        ]
        assert found == [1, 2, 3, 4]
        assert (await execute(client, 3)).ok.affected_rows == 1
        assert (await execute(client, 1, number(5))).ok.affected_rows == 1
        assert counted(await execute(client, 4, number(0))) == 2
        assert counted(await execute(client, 2, number(5))) == 1
        assert ran_on_primary(proxy, "SELECT COUNT") == 0


async def test_a_failed_prepare_spends_an_id() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        answer = await client.command(b"\x16SELECT FROM WHERE", PREPARED)
        assert answer.error.code == 1064
        assert await prepare(client, "SELECT 1") == 2


@pytest.mark.parametrize("code", [1243, 1615])
async def test_a_server_that_forgot_the_statement_is_told_again(code: int) -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        await client.query("CREATE TABLE t (id INT)")
        statement = await prepare(client, SELECT)
        await proxy.caught_up()
        proxy.cluster.replicas[0].faults.raw_reply(err(code), matching=b"\x17\x01\0\0\0")
        assert counted(await execute(client, statement, number(0))) == 0
        assert ran_on_replicas(proxy) == 3  # two PREPAREs, and an EXECUTE that ran
        proxy.cluster.replicas[0].faults.raw_reply(err(code), matching=b"\x17", times=2)
        assert (await execute(client, statement, number(0))).error.code == code
        assert counted(await execute(client, statement, number(0))) == 0


async def test_a_replica_that_cannot_prepare_leaves_it_to_the_primary() -> None:
    async with proxy_fixture(replicas=2) as proxy:
        client = await proxy.session()
        await client.query("CREATE TABLE t (id INT)")
        await proxy.caught_up()
        for replica in proxy.cluster.replicas:
            replica.faults.raw_reply(err(1461, "too many"), matching=b"\x16", times=None)
        statement = await prepare(client, SELECT)
        assert counted(await execute(client, statement, number(0))) == 0
        assert ran_on_replicas(proxy) == 0
        assert ran_on_primary(proxy) == 2


async def test_long_data_of_a_read_follows_it_to_whichever_server_runs_it() -> None:
    async with table_fixture() as proxy:
        client = await proxy.session()
        statement = await prepare(client, "SELECT COUNT(*) FROM t WHERE ? = 'abcdef'")
        for piece in (b"abc", b"def"):
            client.send(ComStmtSendLongData(statement, 0, piece).serialise())
        assert (await client.query("INSERT INTO t VALUES (1)")).ok  # the replica is late now
        text = QueryAttribute("", FieldType.MYSQL_TYPE_STRING, b"")
        payload = ComStmtExecute(
            statement, 0, 1, b"\0", ComStmtExecute.of(statement, (text,)).types, b""
        ).serialise(False)
        client.send(payload)
        assert counted(await client.answer(RESULTS, text=False)) == 1
        assert ran_on_primary(proxy) == 2
        # It is gone with the execution: the next one has no value for its parameter.
        client.send(payload)
        assert (await client.answer(RESULTS, text=False)).error.code in (1210, 1835)


async def test_reset_forgets_long_data() -> None:
    async with table_fixture() as proxy:
        client = await proxy.session()
        statement = await prepare(client, "SELECT COUNT(*) FROM t WHERE ? = 'x'")
        client.send(ComStmtSendLongData(statement, 0, b"abc").serialise())
        assert (await client.command(reset_of(statement), SIMPLE)).ok
        value = QueryAttribute("", FieldType.MYSQL_TYPE_STRING, b"x")
        assert counted(await execute(client, statement, value)) == 0
        assert ran_on_replicas(proxy) == 2


async def test_long_data_beyond_the_limit_fails_all_executions_before_a_reset() -> None:
    async with table_fixture(max_allowed_packet=4096) as proxy:
        client = await proxy.session()
        statement = await prepare(client, "SELECT COUNT(*) FROM t WHERE ? = 'x'")
        for _ in range(3):
            client.send(ComStmtSendLongData(statement, 0, bytes(3000)).serialise())
        value = QueryAttribute("", FieldType.MYSQL_TYPE_STRING, b"x")
        for _ in range(3):
            error = (await execute(client, statement, value)).error
            assert error.code == 1105
            assert "max_allowed_packet" in error.message
            client.send(ComStmtSendLongData(statement, 0, b"x").serialise())
        other = await prepare(client, "SELECT COUNT(*) FROM t WHERE ? = 'x'")
        assert counted(await execute(client, other, value)) == 0
        assert (await client.command(reset_of(statement), SIMPLE)).ok
        assert counted(await execute(client, statement, value)) == 0


async def test_there_is_a_limit() -> None:
    async with proxy_fixture(max_prepared_statements=2) as proxy:
        client = await proxy.session()
        first = await prepare(client, "SELECT 1")
        await prepare(client, "SELECT 2")
        answer = await client.command(b"\x16SELECT 3", PREPARED)
        assert (answer.error.code, answer.error.sqlstate) == (1461, "42000")
        client.send(bytes((Command.COM_STMT_CLOSE,)) + first.to_bytes(4, "little"))
        assert await prepare(client, "SELECT 4") == 4


async def test_texts_are_kept_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Statements beyond it are prepared and run on the primary, which alone needs their texts."""
    monkeypatch.setattr(prepared_commands, "_MOST_TEXT", 3000)
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        session = next(iter(proxy.shared.sessions))
        value = "x" * 1000
        numbers = [await prepare(client, f"SELECT '{value}'") for _ in range(5)]
        moving = [session._session_context.prepared.get(number).moves for number in numbers]
        assert moving == [True, True, False, False, False]
        for number in numbers:
            assert value.encode() in (await execute(client, number)).packets[2]
        for number in numbers:
            client.send(bytes((Command.COM_STMT_CLOSE,)) + number.to_bytes(4, "little"))
        assert (await client.ping()).ok
        assert session._session_context.prepared.text_size == 0


@pytest.mark.parametrize("command", [Command.COM_STMT_EXECUTE, Command.COM_STMT_RESET])
@pytest.mark.parametrize("known", [False, True], ids=["none", "closed"])
async def test_unknown_ids(command: Command, known: bool) -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        statement = await prepare(client, "SELECT 1") if known else 77
        client.send(bytes((Command.COM_STMT_CLOSE,)) + statement.to_bytes(4, "little"))
        rest = b"\0\x01\0\0\0" if command is Command.COM_STMT_EXECUTE else b""
        payload = bytes((command,)) + statement.to_bytes(4, "little") + rest
        error = (await client.command(payload)).error
        assert error.code == 1243
        assert f"({statement})" in error.message


async def test_an_unknown_id_is_not_another_statement_on_the_primary() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        await client.query("CREATE TABLE t (id INT)")
        await prepare(client, SELECT)  # 1, on the replica alone
        insert = await prepare(client, "INSERT INTO t VALUES (1)")  # 2; the primary's 1
        read = bytes((Command.COM_STMT_CLOSE,)) + (1).to_bytes(4, "little")
        client.send(read)
        assert (await client.command(b"\x17\x01\0\0\0\0\x01\0\0\0")).error.code == 1243
        assert (await client.query("SELECT COUNT(*) FROM t")).value == b"0"
        assert (await execute(client, insert)).ok


@pytest.mark.parametrize("reset", ["COM_RESET_CONNECTION"])
async def test_a_reset_drops_them_everywhere(reset: str) -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        await client.query("CREATE TABLE t (id INT)")
        statement = await prepare(client, SELECT)
        assert (await client.command(bytes((Command[reset],)), SIMPLE)).ok
        assert (await execute(client, statement, number(0))).error.code == 1243
        again = await prepare(client, SELECT)
        assert again != statement
        assert counted(await execute(client, again, number(0))) == 0


async def test_a_statement_keeps_the_schema_it_was_prepared_in() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        for sql in ("CREATE TABLE t (id INT)", "CREATE TABLE second.t (id INT)"):
            assert (await client.query(sql)).ok
        assert (await client.query("INSERT INTO second.t VALUES (1)")).ok
        statement = await prepare(client, SELECT)
        assert (await client.query("USE second")).ok
        assert (await client.query("BEGIN")).ok  # so that it must run on the primary
        assert counted(await execute(client, statement, number(0))) == 0
        assert (await client.query("SELECT COUNT(*) FROM t")).value == b"1"
        assert (await client.query("COMMIT")).ok
        assert counted(await execute(client, statement, number(0))) == 0
        assert (await client.query("SELECT COUNT(*) FROM t")).value == b"1"


async def test_a_statement_is_prepared_on_the_primary_before_sql_mode_changes() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        await client.query("CREATE TABLE t (id INT)")
        statement = await prepare(client, 'SELECT COUNT(*) FROM t WHERE "a" = ?')
        assert (await client.query("SET sql_mode = 'ANSI_QUOTES'")).ok
        texts = statements_of(proxy.cluster.primary)
        assert texts[-2:] == ['SELECT COUNT(*) FROM t WHERE "a" = ?', texts[-1]]
        value = QueryAttribute("", FieldType.MYSQL_TYPE_STRING, b"a")
        assert counted(await execute(client, statement, value)) == 0


async def test_the_comment_to_tidegate_counts() -> None:
    async with table_fixture() as proxy:
        client = await proxy.session()
        assert (await client.query("INSERT INTO t VALUES (1)")).ok
        comment = "/* tidegate consistency=BEST_EFFORT */ "
        statement = await prepare(client, comment + SELECT)
        assert counted(await execute(client, statement, number(0))) == 0  # not yet applied
        assert proxy.statements("replica", "read", "none") == 2


async def test_attributes_of_an_execution_count() -> None:
    async with table_fixture() as proxy:
        client = await proxy.session(capabilities=ATTRIBUTES)
        statement = await prepare(client, SELECT)
        assert (await client.query("INSERT INTO t VALUES (1)")).ok
        level = QueryAttribute("tidegate.consistency", FieldType.MYSQL_TYPE_STRING, b"BEST_EFFORT")
        assert counted(await execute(client, statement, number(0), level, flags=8)) == 0
        wrong = QueryAttribute("tidegate.consistency", FieldType.MYSQL_TYPE_STRING, b"BEST")
        error = (await execute(client, statement, number(0), wrong, flags=8)).error
        assert error.code == 1231


async def test_a_replica_that_dies_before_the_answer_is_passed_on() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        await client.query("CREATE TABLE t (id INT)")
        statement = await prepare(client, SELECT)
        proxy.cluster.replicas[0].faults.drop_connection_after(0, matching=b"\x17")
        assert counted(await execute(client, statement, number(0))) == 0
        assert proxy.statements("primary", "replica_lost") == 1


def reset_of(statement: int) -> bytes:
    return bytes((Command.COM_STMT_RESET,)) + statement.to_bytes(4, "little")


async def test_what_a_reset_would_drop_is_gone_with_its_replica() -> None:
    """Drivers reset a statement before they execute it again."""
    async with table_fixture() as proxy:
        client = await proxy.session()
        statement = await prepare(client, SELECT)
        assert counted(await execute(client, statement, number(0))) == 0
        proxy.cluster.replicas[0].faults.drop_connection_after(0, matching=b"\x1a")
        assert (await client.command(reset_of(statement), SIMPLE)).ok
        assert counted(await execute(client, statement, number(0))) == 0
        assert ran_on_primary(proxy) == 0


async def test_a_cursor_is_reset_with_its_replica() -> None:
    async with table_fixture() as proxy:
        client = await proxy.session()
        statement = await prepare(client, SELECT)
        assert counted(await execute(client, statement, number(0))) == 0
        (session,) = proxy.shared.sessions
        prepared = session._session_context.prepared.get(statement)
        assert prepared is not None
        (replica,) = session._servers.replicas
        session._session_context.prepared._cursors[statement] = replica  # the mocker has no cursors
        await proxy.cluster.replicas[0].stop()
        await eventually(lambda: replica.lost)
        assert (await client.command(reset_of(statement), SIMPLE)).ok
        assert counted(await execute(client, statement, number(0))) == 0


LONG: Mapping[str, Any] = {"a write": "INSERT INTO t VALUES (LENGTH(?))", "a read": SELECT}


@pytest.mark.parametrize("case", LONG)
async def test_executions_that_come_in_parts(case: str) -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        await client.query("CREATE TABLE t (id INT)")
        statement = await prepare(client, LONG[case])
        value = QueryAttribute("", FieldType.MYSQL_TYPE_STRING, b"1" * (3 << 20))
        answer = await execute(client, statement, value)
        assert answer.packets[-1][0] != 0xFF, answer.error
        small = await execute(client, statement, number(1))
        assert small.packets[-1][0] != 0xFF, small.error


async def test_an_unknown_execution_that_comes_in_parts() -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        payload = b"\x17\x63\0\0\0\0\x01\0\0\0" + bytes(3 << 20)
        client.send_bytes(frame(payload, 0))
        assert (await client.answer(RESULTS)).error.code == 1243
        assert (await client.ping()).ok


@pytest.mark.parametrize("case", LONG)
async def test_long_data_that_comes_in_parts(case: str) -> None:
    async with proxy_fixture() as proxy:
        client = await proxy.session()
        await client.query("CREATE TABLE t (id INT)")
        statement = await prepare(client, LONG[case])
        client.send(ComStmtSendLongData(statement, 0, b"1" * (3 << 20)).serialise())
        text = QueryAttribute("", FieldType.MYSQL_TYPE_STRING, b"")
        payload = ComStmtExecute(
            statement, 0, 1, b"\0", ComStmtExecute.of(statement, (text,)).types, b""
        ).serialise(False)
        client.send(payload)
        answer = await client.answer(RESULTS, text=False)
        assert answer.packets[-1][0] != 0xFF, answer.error
        assert (await client.ping()).ok


async def test_rows_of_a_cursor_are_not_taken_from_an_answer_that_came_too_late() -> None:
    async with table_fixture() as proxy:
        client = await proxy.session()
        statement = await prepare(client, SELECT)
        assert counted(await execute(client, statement, number(0))) == 0
        (session,) = proxy.shared.sessions
        (replica,) = session._servers.replicas
        prepared = session._session_context.prepared.get(statement)
        assert prepared is not None
        session._session_context.prepared._cursors[statement] = replica  # the mocker has no cursors
        assert (await client.query("INSERT INTO t VALUES (1)")).ok
        gate = proxy.cluster.replicas[0].faults.hold_reply(b"SELECT COUNT(*) FROM t")
        assert (await client.query("SELECT COUNT(*) FROM t")).value == b"1"
        assert replica.owes_answer
        fetch = ComStmtFetch(statement, 5).serialise()
        assert (await client.command(fetch, FETCHED)).error.code == 2013
        gate.open()


async def test_a_long_execution_is_refused_once() -> None:
    """Where the primary would read its statement otherwise, and all of it has to come first."""
    async with table_fixture() as proxy:
        client = await proxy.session()
        statement = await prepare(client, "SELECT COUNT(*) FROM t WHERE id <> ?")
        (session,) = proxy.shared.sessions
        session.state.variables["sql_mode"] = "'ANSI_QUOTES'"  # as a program's SET, by a tracker
        text = QueryAttribute("", FieldType.MYSQL_TYPE_VAR_STRING, b"x" * (2 * STREAM_ABOVE))
        assert (await execute(client, statement, text)).error.code == 1243
        assert (await client.query("SELECT 1")).value == b"1"
        assert proxy.count("tidegate_errors_total", "1243") == 1
