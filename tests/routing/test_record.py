import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.gtid import GtidSet
from routing.consistency.decision import Level, Outcome, Proof, Reason, Scope, TimeoutPolicy
from routing.consistency.independence import Independence
from routing.consistency.rules import Rules
from routing.record import (
    FIELDS,
    LAG,
    NO_SERVER,
    RECORD_VERSION,
    SNAPSHOT,
    TABLES,
    RecordStream,
    Route,
    lag_fragment,
    server_fragment,
    session_fragment,
    statement_fragment,
)
from routing.servers.lag import Lag, SourceLag, Span, Transaction
from routing.servers.replication_status import Stamped
from routing.servers.transaction_tables import TableName
from tests.support.statement_records import add_statement

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
RULES = Rules(
    Level.BOUNDED_STALENESS, Scope.CONNECTION, 0.25, TimeoutPolicy.PRIMARY, 0.25, application="cart"
)
SESSION = session_fragment(7, "app", "shop", "ab/7", RULES)
STATEMENT = statement_fragment("COM_QUERY", "read", "0123456789abcdef", False)
SERVER = server_fragment("db2:3306", UUID, "replica", 3)
NO_BOUND = 1 << 40

# Names come from clients as bytes: anything, also what is no UTF-8 (then with surrogates).
names = st.one_of(
    st.text(),
    st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape")),
    st.sampled_from(
        ['"', "\\", "\n", "\r\n", "\0", "\x1f", "\x7f", "\u2028", "\ud800", '","seq":0,"']
    ),
)


def add(stream: RecordStream, ordinal: int = 1, **changes: Any) -> None:
    arguments: dict[str, Any] = {
        "session_fragment": SESSION,
        "statement_fragment": STATEMENT,
        "arrived_us": 1_700_000_000_000_001,
        "dispatched_us": 1_700_000_000_000_002,
        "ended_us": 1_700_000_000_000_003,
        "required": f"{UUID}:1-5",
        "server_fragment": SERVER,
        "reason": Reason.READ,
        "proof": Proof.KNOWN,
        "proof_set": f"{UUID}:1-9",
        "wait_us": 4,
        "fallbacks": "db3:3306:wait_timeout",
        "outcome": Outcome.OK,
        "error_code": 0,
        "own_gtids": f"{UUID}:tag:6",
        "own_known": True,
        "observed": "",
        "bytes": 123,
        "rows": 2,
        "ordinal": ordinal,
    }
    chosen = {**arguments, **changes}
    session, statement = chosen.pop("session_fragment"), chosen.pop("statement_fragment")
    route = (chosen.pop(name) for name in ("server_fragment", "reason", "proof", "outcome"))
    add_statement(stream, session, statement, Route(*route), **chosen)


def records(stream: RecordStream) -> list[dict[str, Any]]:
    text = stream.take(1 << 40)
    assert text.isascii()
    assert text == "" or text.endswith("\n")
    # Not splitlines(): a reader of JSON Lines knows no other line end than \n.
    return [json.loads(line) for line in text.split("\n")[:-1]]


def check_shape(record: dict[str, Any]) -> None:
    assert list(record) == [name for name, _, _ in FIELDS]
    for name, kind, nullable in FIELDS:
        value = record[name]
        assert type(value) is kind or (nullable and value is None), (name, value)


def test_a_proof_may_tell_of_lag_in_a_field_of_its_own() -> None:
    original, ended = 1_700_000_000_000_000, 1_700_000_000_250_000
    stamped = Stamped(f"{UUID}:5", original, original, ended - 100, ended)
    transaction = Transaction('a "channel"', stamped, Span(250_000, 300), Span(250_000, None))
    lag = Lag()
    lag.sources = [SourceLag("", UUID, Span(900), None, transaction, None)]
    stream = RecordStream("edge", 2, "ab", NO_BOUND)
    stream.proof(SERVER, "probed", f"{UUID}:1-5", 1, 2, lag_fragment(lag, [transaction]))
    stream.proof(SERVER, "probed", f"{UUID}:1-5", 1, 2)
    with_lag, plain = records(stream)
    found = with_lag.pop("lag")
    check_shape(with_lag)
    check_shape(plain)
    assert list(found) == list(LAG)
    for name, fields in LAG.items():
        (row,) = found[name]
        assert list(row) == [field for field, _, _ in fields]
        for field, kind, nullable in fields:
            assert type(row[field]) is kind or (nullable and row[field] is None), field
    assert found["applied"][0]["channel"] == 'a "channel"'
    assert found["applied"][0]["end_to_end_us"] == 250_000
    assert found["waits"][0]["waits_us"] == 900


def test_an_independent_read_names_its_tables() -> None:
    tables = frozenset([TableName("app", 'a`"\\'), TableName("größe", "t")])
    required = GtidSet.parse(f"{UUID}:1-9")
    remaining, known = GtidSet.parse(f"{UUID}:1-5"), GtidSet.parse(f"{UUID}:1-3")
    less = Independence(required, remaining, known, tables)
    assert less.left_out == GtidSet.parse(f"{UUID}:6-9")
    stream = RecordStream("edge", 2, "ab", NO_BOUND)
    waited = {"proof": Proof.INDEPENDENT, "allowed": Proof.INDEPENDENT, "proof_set": f"{UUID}:5"}
    add(stream, independence=less, snapshot_us=7, **waited)
    add(stream, ordinal=2)
    add(stream, ordinal=3, independence=less)  # it went on elsewhere
    independent, plain, other = records(stream)
    ((name, _, _),) = TABLES
    assert independent.pop(name) == '`app`.`a``"\\`,`größe`.`t`'
    assert independent.pop("snapshot_us") == 7
    assert independent["proof_set"] == f"{UUID}:1-3:5"
    for record in (independent, plain, other):
        check_shape(record)


def test_a_statement_may_tell_when_its_snapshot_was_asked_for() -> None:
    stream = RecordStream("edge", 2, "ab", NO_BOUND)
    add(stream, snapshot_us=1_700_000_000_000_000)
    add(stream, ordinal=2)
    with_snapshot, plain = records(stream)
    ((name, kind, _),) = SNAPSHOT
    assert type(found := with_snapshot.pop(name)) is kind
    assert found == 1_700_000_000_000_000
    check_shape(with_snapshot)
    check_shape(plain)


def test_no_news_of_lag_is_no_field() -> None:
    lag = Lag()
    assert lag_fragment(lag, []) == ""
    lag.sources = [SourceLag("", UUID, Span(0), Span(0), None, None)]
    assert lag_fragment(lag, []) == ""


def test_statement_has_every_field_in_order() -> None:
    stream = RecordStream("edge", 2, "ab", NO_BOUND)
    add(stream)
    (record,) = records(stream)
    check_shape(record)
    assert record == {
        "v": RECORD_VERSION,
        "kind": "statement",
        "proxy": "edge",
        "worker": 2,
        "run": "ab",
        "seq": 1,
        "dropped": 0,
        "ordinal": 1,
        "session": 7,
        "user": "app",
        "schema": "shop",
        "scope": "connection",
        "scope_key": "ab/7",
        "application": "cart",
        "level": "BOUNDED_STALENESS",
        "bound_us": 250_000,
        "command": "COM_QUERY",
        "class": "read",
        "digest": "0123456789abcdef",
        "may_write": False,
        "arrived_us": 1_700_000_000_000_001,
        "dispatched_us": 1_700_000_000_000_002,
        "ended_us": 1_700_000_000_000_003,
        "required": f"{UUID}:1-5",
        "server": "db2:3306",
        "server_uuid": UUID,
        "incarnation": 3,
        "role": "replica",
        "reason": "read",
        "proof": "known",
        "proof_set": f"{UUID}:1-9",
        "wait_us": 4,
        "fallbacks": "db3:3306:wait_timeout",
        "outcome": "ok",
        "error_code": 0,
        "own_gtids": f"{UUID}:tag:6",
        "own_known": True,
        "observed": "",
        "bytes": 123,
        "rows": 2,
    }


def test_nulls_and_empties() -> None:
    stream = RecordStream("edge", 0, "ab", NO_BOUND)
    add(
        stream,
        session_fragment=session_fragment(
            7,
            "",
            None,
            "ab/7",
            Rules(Level.BEST_EFFORT, Scope.CONNECTION, 0.25, TimeoutPolicy.PRIMARY),
        ),
        statement_fragment=statement_fragment("COM_PING", "session", None, True),
        dispatched_us=1_700_000_000_000_001,
        required=None,
        server_fragment=NO_SERVER,
        proof_set=None,
        own_known=False,
        rows=None,
    )
    (record,) = records(stream)
    check_shape(record)
    nulls = {name for name, value in record.items() if value is None}
    assert nulls == {name for name, _, nullable in FIELDS if nullable}
    assert record["dispatched_us"] == record["arrived_us"]
    assert record["may_write"] is True
    assert record["own_known"] is False


@given(
    user=names,
    schema=st.none() | names,
    scope_key=names,
    application=names,
    server=names,
)
def test_hostile_names_survive(
    user: str, schema: str | None, scope_key: str, application: str, server: str
) -> None:
    stream = RecordStream("edge", 0, "ab", NO_BOUND)
    rules = Rules(
        Level.STRONG, Scope.APPLICATION, 0.25, TimeoutPolicy.PRIMARY, application=application
    )
    add(
        stream,
        session_fragment=session_fragment(7, user, schema, scope_key, rules),
        server_fragment=server_fragment(server, None, "replica", 0),
    )
    (record,) = records(stream)
    check_shape(record)
    found = tuple(record[name] for name in ("user", "schema", "scope_key", "application", "server"))
    assert found == (user, schema, scope_key, application or None, server)


@given(
    numbers=st.lists(st.integers(0, 2**63 - 1), min_size=7, max_size=7),
    required=st.none() | st.just("") | st.just(f"{UUID}:1-3:5:tag:7"),
    rows=st.none() | st.integers(0, 2**63 - 1),
)
def test_any_number_survives(numbers: list[int], required: str | None, rows: int | None) -> None:
    names = ("arrived_us", "dispatched_us", "ended_us", "wait_us", "error_code", "bytes", "ordinal")
    stream = RecordStream("edge", 0, "ab", NO_BOUND)
    given = dict(zip(names, numbers, strict=True))
    add(stream, required=required, rows=rows, **given)
    (record,) = records(stream)
    check_shape(record)
    assert {name: record[name] for name in names} == given
    assert (record["required"], record["rows"]) == (required, rows)


@pytest.mark.parametrize("reason", list(Reason))
@pytest.mark.parametrize("proof", list(Proof))
def test_verdicts_are_not_mixed_up(reason: Reason, proof: Proof) -> None:
    stream = RecordStream("edge", 0, "ab", NO_BOUND)
    for other in Reason:
        add(stream, reason=other, proof=proof)
    add(stream, reason=reason, proof=proof)
    last = records(stream)[-1]
    assert (last["reason"], last["proof"]) == (reason.value, proof.value)


def test_proof_record() -> None:
    stream = RecordStream("edge", 0, "ab", NO_BOUND)
    add(stream)
    stream.proof(SERVER, "probed", f"{UUID}:1-9", 11, 22)
    record = records(stream)[1]
    check_shape(record)
    empty = {"v", "kind", "proxy", "worker", "run", "seq", "server", "server_uuid", "incarnation"}
    empty |= {"role", "proof", "proof_set", "arrived_us", "dispatched_us", "ended_us"}
    assert {name for name, value in record.items() if value} == empty - {"worker"}
    assert (record["kind"], record["seq"], record["proof"]) == ("proof", 2, "probed")
    assert (record["dispatched_us"], record["ended_us"]) == (11, 22)
    assert (record["server"], record["proof_set"]) == ("db2:3306", f"{UUID}:1-9")


def test_gap_uses_up_the_numbers_of_what_was_dropped() -> None:
    stream = RecordStream("edge", 0, "ab", 1000)
    add(stream)
    add(stream)  # with this record, the bound is exceeded
    add(stream, arrived_us=100, ended_us=105)
    add(stream, arrived_us=90, ended_us=110)
    stream.proof(SERVER, "probed", "", 120, 121)
    assert stream.dropped == 3
    assert [record["seq"] for record in records(stream)] == [1, 2]
    add(stream, ordinal=6)
    gap, statement = records(stream)
    check_shape(gap)
    assert (gap["kind"], gap["dropped"], gap["seq"]) == ("gap", 3, 6)
    assert (gap["arrived_us"], gap["dispatched_us"], gap["ended_us"]) == (100, 100, 121)
    assert (statement["kind"], statement["seq"], statement["ordinal"]) == ("statement", 7, 6)
    stream.finish()
    assert records(stream) == []


def test_gap_at_the_end_is_told() -> None:
    stream = RecordStream("edge", 0, "ab", 0)
    add(stream)
    add(stream)
    stream.finish()
    statement, gap = records(stream)
    assert (statement["seq"], gap["seq"], gap["dropped"]) == (1, 3, 1)


@given(st.lists(st.sampled_from(["add", "proof", "take"]), max_size=60))
def test_numbers_have_no_holes(steps: list[str]) -> None:
    stream = RecordStream("edge", 0, "ab", 1500)
    found = []
    for step in [*steps, "finish"]:
        if step == "add":
            add(stream)
        elif step == "proof":
            stream.proof(SERVER, "waited", "", 1, 2)
        elif step == "take":
            found += records(stream)
        else:
            stream.finish()
    found += records(stream)
    expected = 0
    for record in found:
        expected += record["dropped"] + 1
        assert record["seq"] == expected
    assert expected == stream.seq
    assert sum(record["dropped"] for record in found) == stream.dropped


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"required": None, "proof_set": None, "rows": None},
        {"wait_us": 0, "fallbacks": "", "own_gtids": "", "rows": 12_345, "bytes": 54_321},
        {"dispatched_us": 1_700_000_000_000_001, "ordinal": 1_000_000, "snapshot_us": 17},
    ],
)
def test_what_was_taken_makes_room_for_as_much(changes: dict[str, Any]) -> None:
    stream = RecordStream("edge", 0, "ab", 0)
    for _ in range(2000):
        add(stream, **changes)
        assert len(records(stream)) == 1
    add(stream)
    add(stream)
    assert stream.dropped == 1


def test_take_is_in_order_and_bounded() -> None:
    stream = RecordStream("edge", 0, "ab", NO_BOUND)
    for _ in range(5):
        add(stream)
    first, rest = stream.take(2), stream.take(10)
    assert first.count("\n") == 2
    assert [json.loads(line)["seq"] for line in (first + rest).split("\n")[:-1]] == [1, 2, 3, 4, 5]
    assert stream.take(1) == ""
