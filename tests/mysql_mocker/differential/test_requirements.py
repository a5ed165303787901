"""What WL#6972 and WL#6128 require, one by one, on MySQL and on the mocker alike."""

from collections.abc import Iterator

import pytest

from protocol import session_track
from protocol.constants import ServerStatus, SessionTrackType
from protocol.gtid import GtidSet
from protocol.response import ErrPacket
from tests.mysql_mocker.differential.arena import Arena
from tests.mysql_mocker.differential.schema import PASSWORD, USER
from tests.mysql_mocker.raw_client import RawClient, Reply
from tests.real_mysql.cluster import RealServer

pytestmark = pytest.mark.real_mysql

INSERT = "INSERT INTO t (v) VALUES (1)"
MODES = ("OWN_GTID", "ALL_GTIDS")


@pytest.fixture(params=["real", "mocker"])
def port(arena: Arena, request: pytest.FixtureRequest) -> int:
    peer = arena.real if request.param == "real" else arena.mocker
    return int(peer.address.rpartition(":")[2])


@pytest.fixture
def client(port: int) -> Iterator[RawClient]:
    with RawClient(port, USER, PASSWORD, None) as client:
        for statement in (
            "DROP DATABASE IF EXISTS required",
            "CREATE DATABASE required",
            "USE required",
            "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v INT)",
        ):
            done(client, statement)
        yield client
        for statement in ("ROLLBACK", "UNLOCK TABLES", "DROP DATABASE required"):
            client.query(statement)


@pytest.fixture
def onlooker(port: int) -> Iterator[RawClient]:
    with RawClient(port, USER, PASSWORD, None) as client:
        yield client


def done(client: RawClient, statement: str) -> Reply:
    """The last reply to a statement that must not fail."""
    replies = client.query(statement)
    for reply in replies:
        assert not isinstance(reply.end, ErrPacket), (statement, reply.end)
    return replies[-1]


def track(client: RawClient, mode: str) -> None:
    done(client, f"SET session_track_gtids = {mode}")
    done(client, "SELECT 1")  # behind which the new value counts


def gained(client: RawClient, onlooker: RawClient, *statements: str) -> tuple[Reply, GtidSet]:
    """The reply to the last statement, and the GTIDs that the server gained by it."""
    for statement in statements[:-1]:
        done(client, statement)
    before = onlooker.executed()
    reply = done(client, statements[-1])
    return reply, onlooker.executed() - before


# WL#6972.


def test_fr1_gtids_are_told_with_the_transactions_end_and_once(
    client: RawClient, onlooker: RawClient
) -> None:
    track(client, "OWN_GTID")
    reply, own = gained(client, onlooker, INSERT)
    assert len(own) == 1
    assert reply.gtids == own
    assert done(client, "SELECT 1").gtids is None
    reply, own = gained(client, onlooker, "BEGIN", INSERT, INSERT, "COMMIT")
    assert reply.gtids == own
    assert done(client, "DO 1").gtids is None


def test_fr1_what_is_told_is_visible_to_everyone(client: RawClient, onlooker: RawClient) -> None:
    track(client, "OWN_GTID")
    for count in range(1, 6):
        own = done(client, INSERT).gtids
        assert own is not None
        assert own <= onlooker.executed()
        assert onlooker.value("SELECT COUNT(*) FROM required.t") == str(count)


def test_fr2_what_is_told_can_be_chosen_at_any_time(client: RawClient, onlooker: RawClient) -> None:
    assert client.value("SELECT @@session_track_gtids") == "OFF"
    assert done(client, INSERT).gtids is None
    for mode in (*MODES, *reversed(MODES)):
        track(client, mode)
        reply, own = gained(client, onlooker, INSERT)
        executed = onlooker.executed()
        assert reply.gtids == (own if mode == "OWN_GTID" else executed)
        read = done(client, "SELECT * FROM t").gtids
        assert read == (None if mode == "OWN_GTID" else executed)
    track(client, "OFF")
    assert done(client, INSERT).gtids is None


def test_fr2_the_global_value_is_that_of_new_sessions(
    port: int, client: RawClient, onlooker: RawClient
) -> None:
    done(onlooker, "SET GLOBAL session_track_gtids = OWN_GTID")
    try:
        with RawClient(port, USER, PASSWORD, "required") as new:
            assert done(new, INSERT).gtids is not None
        assert done(client, INSERT).gtids is None
    finally:
        done(onlooker, "SET GLOBAL session_track_gtids = OFF")


def test_fr3_departs_gtids_are_told_with_gtid_mode_off_too(real: RealServer) -> None:
    with RawClient(real.port, USER, PASSWORD, None) as client:
        steps = ("ON_PERMISSIVE", "OFF_PERMISSIVE", "OFF")
        try:
            for step in steps:
                real.query(f"SET GLOBAL gtid_mode = {step}")
            executed = client.executed()
            track(client, "OWN_GTID")
            assert done(client, "CREATE DATABASE required").gtids is None
            track(client, "ALL_GTIDS")
            assert done(client, "DROP DATABASE required").gtids == (executed or None)
        finally:
            for step in (*reversed(steps[:-1]), "ON"):
                real.query(f"SET GLOBAL gtid_mode = {step}")


@pytest.mark.parametrize(
    "ending",
    ["BEGIN", "START TRANSACTION", "LOCK TABLES t READ", "SET autocommit = 1", "TRUNCATE t",
     "CREATE TABLE u (n INT)", "FLUSH TABLES", "ANALYZE TABLE t", "CREATE INDEX i ON t (v)"],
)  # fmt: skip
def test_fr4_who_ends_a_transaction_tells_its_gtid(
    client: RawClient, onlooker: RawClient, ending: str
) -> None:
    track(client, "OWN_GTID")
    opening = "SET autocommit = 0" if "autocommit" in ending else "BEGIN"
    reply, own = gained(client, onlooker, opening, INSERT, ending)
    assert len(own) == (1 if ending.startswith(("BEGIN", "START", "LOCK", "SET")) else 2)
    assert reply.gtids == own


def test_fr4_departs_begin_tells_nothing_of_all(client: RawClient, onlooker: RawClient) -> None:
    track(client, "ALL_GTIDS")
    reply, own = gained(client, onlooker, "BEGIN", INSERT, "BEGIN")
    assert len(own) == 1
    assert reply.gtids is None
    assert done(client, "COMMIT").gtids == onlooker.executed()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "statements",
    [("BEGIN", INSERT, "ROLLBACK"), ("BEGIN", "SAVEPOINT s", INSERT, "ROLLBACK TO s"),
     ("ROLLBACK",), ("SET autocommit = 0", INSERT, "ROLLBACK"),
     ("BEGIN", INSERT, "ROLLBACK AND CHAIN")],
    ids="; ".join,
)  # fmt: skip
def test_fr5_a_rollback_tells_nothing(
    client: RawClient, onlooker: RawClient, statements: tuple[str, ...], mode: str
) -> None:
    track(client, mode)
    reply, own = gained(client, onlooker, *statements)
    assert not own
    assert reply.gtids is None


def test_fr5_a_savepoints_rollback_leaves_the_rest_to_be_told(
    client: RawClient, onlooker: RawClient
) -> None:
    track(client, "OWN_GTID")
    kept = ("BEGIN", INSERT, "SAVEPOINT s", INSERT, "ROLLBACK TO s", "COMMIT")
    reply, own = gained(client, onlooker, *kept)
    assert len(own) == 1
    assert reply.gtids == own


def test_fr6_prepared_statements_tell_the_same(client: RawClient, onlooker: RawClient) -> None:
    """In the binary protocol and in SQL, a transaction's end included."""
    numbers = {}
    for sql in (INSERT, "COMMIT", "ROLLBACK", "SELECT * FROM t", "CREATE TABLE u (n INT)"):
        client.send(b"\x16" + sql.encode())
        head = client.read_packet_anew()
        columns = int.from_bytes(head[5:7], "little")
        for _ in range(columns):
            client.read_packet()
        numbers[sql] = head[1:5]

    def execute(sql: str) -> tuple[GtidSet | None, GtidSet]:
        before = onlooker.executed()
        (reply,) = client.command(b"\x17" + numbers[sql] + b"\0\1\0\0\0")
        return reply.gtids, onlooker.executed() - before

    track(client, "OWN_GTID")
    for sql, count in ((INSERT, 1), ("CREATE TABLE u (n INT)", 1), ("COMMIT", 0)):
        tracked, own = execute(sql)
        assert len(own) == count
        assert (tracked or GtidSet()) == own
    done(client, "BEGIN")
    assert execute(INSERT) == (None, GtidSet())
    tracked, own = execute("COMMIT")
    assert tracked == own
    assert len(own) == 1
    done(client, "BEGIN")
    execute(INSERT)
    assert execute("ROLLBACK") == (None, GtidSet())
    done(client, f"PREPARE p FROM '{INSERT}'")
    reply, own = gained(client, onlooker, "EXECUTE p")
    assert reply.gtids == own


@pytest.mark.parametrize("value", ["OFF", "OWN_GTID", "ALL_GTIDS", "DEFAULT"])
@pytest.mark.parametrize(
    "opening",
    [("BEGIN",), ("START TRANSACTION READ ONLY",), ("SET autocommit = 0", "SELECT * FROM t"),
     ("BEGIN", INSERT)],
    ids="; ".join,
)  # fmt: skip
def test_fr7_it_cannot_be_set_in_a_transaction(
    client: RawClient, opening: tuple[str, ...], value: str
) -> None:
    track(client, "OWN_GTID")
    for statement in opening:
        done(client, statement)
    error = client.reply(f"SET session_track_gtids = {value}").error
    assert (error.code, error.sqlstate) == (1766, "HY000")
    assert client.value("SELECT @@session_track_gtids") == "OWN_GTID"
    done(client, "ROLLBACK")
    done(client, f"SET session_track_gtids = {value}")


def test_fr7_it_can_be_set_before_the_first_table(client: RawClient) -> None:
    done(client, "SET autocommit = 0")
    done(client, "SELECT 1")
    done(client, "SET session_track_gtids = ALL_GTIDS")


# WL#6128.


def test_f1_f2_what_is_collected_is_a_change_of_state(client: RawClient) -> None:
    changed = ServerStatus.SERVER_SESSION_STATE_CHANGED
    assert not done(client, INSERT).status & changed
    track(client, "OWN_GTID")
    assert done(client, INSERT).status & changed
    assert not done(client, "SELECT 1").status & changed
    track(client, "ALL_GTIDS")
    assert done(client, "SELECT 1").status & changed


def test_f3_the_encoding_stands_before_the_gtids(client: RawClient) -> None:
    track(client, "OWN_GTID")
    block = done(client, INSERT).ok.session_state
    assert block is not None
    ((kind, entity),) = session_track.entries(block)
    assert kind == SessionTrackType.SESSION_TRACK_GTIDS
    text = entity[2:]
    assert entity[:2] == bytes((session_track.TEXT_ENCODING, len(text)))
    assert GtidSet.parse(text.decode()) == session_track.gtids(block)
