"""`TransactionTables` against the rule, written down transaction by transaction."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.gtid import EMPTY, Gtid, GtidSet, united
from routing.servers.topology import Topology
from routing.servers.transaction_tables import TableName, TransactionTables

A = "168066ae-e53d-11f1-b607-02fc00000001"
B = "191e1ad2-e53d-11f1-b607-02fc00000001"
TAGGED = f"{A}:tag"
SOURCES = (A, B, TAGGED)
T1, T2, T3 = (TableName("app", name) for name in ("t1", "t2", "t3"))
LARGE = 1 << 30


def one(gtid: Gtid) -> GtidSet:
    return GtidSet.of(gtid.tsid, gtid.number, gtid.number + 1)


def numbers(gtids: GtidSet) -> set[Gtid]:
    return {
        Gtid(tsid, number)
        for tsid in gtids.tsids
        for start, end in gtids.intervals(tsid)
        for number in range(start, end)
    }


def tables(*names: TableName) -> frozenset[TableName]:
    return frozenset(names)


class Transaction(NamedTuple):
    """One of a log; `tables` is None if it is opaque."""

    gtid: Gtid
    tables: frozenset[TableName] | None


def opaque(log: list[Transaction]) -> GtidSet:
    return united([EMPTY, *[one(entry.gtid) for entry in log if entry.tables is None]])


gtids = st.builds(Gtid, st.sampled_from(SOURCES), st.integers(1, 12))
gtid_sets = st.sets(gtids, max_size=30).map(lambda found: united([EMPTY, *map(one, found)]))
read_tables = st.frozensets(st.sampled_from([T1, T2, T3]))
logs = st.lists(
    st.builds(Transaction, gtids, st.one_of(read_tables, read_tables, st.none())),
    max_size=25,
    unique_by=lambda transaction: transaction.gtid,
)


def by_the_rule(
    log: list[Transaction],
    base: GtidSet,
    required: GtidSet,
    applied: GtidSet,
    read: frozenset[TableName],
) -> GtidSet:
    """What is still required, looking at each transaction by itself."""
    if not numbers(base) <= numbers(applied):
        return required
    if not all(entry.gtid in applied for entry in log if entry.tables is None):
        return required
    without_effect = {
        entry.gtid for entry in log if entry.tables is not None and not entry.tables & read
    }
    matters = numbers(required - applied) - without_effect
    last = {gtid.tsid: 0 for gtid in numbers(required)}
    for gtid in matters:
        last[gtid.tsid] = max(last[gtid.tsid], gtid.number)
    left = {gtid for gtid in numbers(required) if gtid in applied or gtid.number <= last[gtid.tsid]}
    return united([EMPTY, *map(one, left)])


def fed(log: list[Transaction], base: GtidSet, limit: int = LARGE) -> TransactionTables:
    """A table that has read this log."""
    table = TransactionTables(limit)
    table.begin(1, base, 0)
    for gtid, names in log:
        if names is None:
            table.add_opaque(gtid)
        else:
            table.add_rows(gtid, names)
    return table


@given(logs, gtid_sets, gtid_sets, gtid_sets, read_tables)
def test_it_leaves_out_what_the_rule_leaves_out(
    log: list[Transaction],
    base: GtidSet,
    required: GtidSet,
    applied: GtidSet,
    read: frozenset[TableName],
) -> None:
    log = [entry for entry in log if entry.gtid not in base]
    table = fed(log, base)
    for known in (applied, applied | base, applied | base | opaque(log)):
        expected = by_the_rule(log, base, required, known, read)
        assert table.still_required(required, known, read) == expected
    assert table.read_through == united([base, *[one(entry.gtid) for entry in log]])


@given(logs, gtid_sets, gtid_sets, gtid_sets, gtid_sets, read_tables)
def test_what_was_dropped_is_required_of_each_replica(
    log: list[Transaction],
    base: GtidSet,
    dropped: GtidSet,
    required: GtidSet,
    applied: GtidSet,
    read: frozenset[TableName],
) -> None:
    log = [entry for entry in log if entry.gtid not in base]
    table = fed(log, base)
    table.drop(dropped)
    below = base | (dropped & table.read_through)
    for known in (applied, applied | below, applied | below | opaque(log)):
        expected = by_the_rule(log, below, required, known, read)
        assert table.still_required(required, known, read) == expected


@given(logs, st.integers(0, 2000), gtid_sets, gtid_sets, read_tables)
def test_a_limit_only_requires_more(
    log: list[Transaction],
    limit: int,
    required: GtidSet,
    applied: GtidSet,
    read: frozenset[TableName],
) -> None:
    table = fed(log, EMPTY, limit)
    applied |= opaque(log)
    expected = by_the_rule(log, EMPTY, required, applied, read)
    found = table.still_required(required, applied, read)
    assert expected <= found <= required
    assert table.memory <= limit


@given(logs, gtid_sets, gtid_sets)
def test_definitions_stand_until_something_may_have_changed_them(
    log: list[Transaction], base: GtidSet, executed: GtidSet
) -> None:
    log = [entry for entry in log if entry.gtid not in base]
    table = fed(log, base)
    came = {entry.gtid for entry in log} | numbers(base)
    opaque = {entry.gtid for entry in log if entry.tables is None}
    seen = numbers(executed)
    assert table.definitions_stand(executed) == (seen <= came and opaque | numbers(base) <= seen)


def test_a_transaction_that_changed_another_table_is_left_out() -> None:
    log = [Transaction(Gtid(A, 10 + n), tables((T1, T2)[n % 2])) for n in range(6)]
    table = fed(log, GtidSet.parse(f"{A}:1-9"))
    applied = GtidSet.parse(f"{A}:1-9")
    required = GtidSet.parse(f"{A}:1-15")
    assert table.still_required(required, applied, tables(T3)) == applied
    assert table.still_required(required, applied, tables(T1)) == GtidSet.parse(f"{A}:1-14")
    assert table.still_required(required, applied, tables(T2)) is required
    assert table.count() == 6


def test_what_a_replica_has_in_between_changes_nothing() -> None:
    changed = {1: T1, 2: T2, 3: T1, 4: T3, 5: T3, 6: T3, 7: T3}
    table = fed([Transaction(Gtid(A, n), tables(name)) for n, name in changed.items()], EMPTY)
    applied = GtidSet.parse(f"{A}:1:4:6")
    required = GtidSet.parse(f"{A}:1-7")
    for read, left in ((T2, f"{A}:1-2:4:6"), (T1, f"{A}:1-4:6"), (T3, f"{A}:1-7")):
        assert table.still_required(required, applied, tables(read)) == GtidSet.parse(left)


def test_nothing_is_left_out_before_the_log_is_read_and_after_it_broke() -> None:
    table = TransactionTables(LARGE)
    required = GtidSet.parse(f"{A}:1-10")
    applied = GtidSet.parse(f"{A}:1-9")
    assert table.still_required(required, applied, tables(T2)) is required
    table.begin(1, applied, 0)
    assert table.still_required(required, applied, tables(T2)) is required  # premise 1
    table.add_rows(Gtid(A, 10), tables(T1))
    assert table.still_required(required, applied, tables(T2)) == applied
    version = table.version
    assert table.cause == ""
    table.forget("it broke")
    assert table.cause == "it broke"
    assert table.version != version
    assert not table.begun
    assert table.term == -1
    assert table.still_required(required, applied, tables(T2)) is required
    with pytest.raises(ValueError, match="not expected"):
        table.add_rows(Gtid(A, 11), tables(T1))


def test_a_transaction_comes_once() -> None:
    table = fed([Transaction(Gtid(A, 10), tables(T1))], GtidSet.parse(f"{A}:1-9"))
    for number in (9, 10):
        with pytest.raises(ValueError, match="not expected"):
            table.add_rows(Gtid(A, number), tables(T2))
        with pytest.raises(ValueError, match="not expected"):
            table.add_opaque(Gtid(A, number))


@pytest.mark.parametrize(
    ("setting", "changed", "read", "same"),
    [
        (0, ("app", "T1"), ("app", "t1"), False),
        (1, ("app", "T1"), ("app", "t1"), True),
        (2, ("App", "t1"), ("aPP", "T1"), True),
        (1, ("app", "ÄRGER"), ("app", "ärger"), True),
        (1, ("app", "İ"), ("app", "i"), False),
        (1, ("app", "İ"), ("app", "ö"), True),  # not known to be others
        (0, ("app", "İ"), ("app", "ö"), False),
    ],
)
def test_names_compare_as_lower_case_table_names_says(
    setting: int, changed: tuple[str, str], read: tuple[str, str], same: bool
) -> None:
    table = TransactionTables(LARGE)
    table.begin(1, EMPTY, setting)
    table.add_rows(Gtid(A, 1), tables(TableName(*changed)))
    required = GtidSet.parse(f"{A}:1")
    left = table.still_required(required, EMPTY, tables(TableName(*read)))
    assert left == (required if same else EMPTY)


@pytest.mark.parametrize("schema", ["mysql", "information_schema", "PERFORMANCE_SCHEMA", "sys"])
def test_the_servers_own_schemas_may_change_with_any_transaction(schema: str) -> None:
    table = fed([Transaction(Gtid(A, 1), tables(T1))], EMPTY)
    required = GtidSet.parse(f"{A}:1")
    read = tables(TableName(schema, "TABLES"), T2)
    assert table.still_required(required, EMPTY, read) is required


@pytest.mark.parametrize("schema", ["mysql", "SYS"])
def test_a_change_of_the_servers_own_tables_is_never_left_out(schema: str) -> None:
    """A read by a named time zone depends on tables that it does not name."""
    log = [
        Transaction(Gtid(A, 1), tables(T2)),
        Transaction(Gtid(A, 2), tables(T2, TableName(schema, "time_zone"))),
        Transaction(Gtid(A, 3), tables(T2)),
    ]
    table = fed(log, EMPTY)
    version = table.version
    required = GtidSet.parse(f"{A}:1-3")
    assert table.still_required(required, EMPTY, tables(T1)) == GtidSet.parse(f"{A}:1-2")
    # It defines nothing: replicas need not have it for the sake of others.
    assert table.still_required(one(Gtid(A, 3)), EMPTY, tables(T1)) == EMPTY
    assert table.version == version
    assert table.definitions_stand(EMPTY)


@pytest.mark.parametrize("every", [1000, 1_000_000])
def test_many_transactions_of_many_tables_take_bounded_memory(every: int) -> None:
    limit = 1 << 20
    table = TransactionTables(limit)
    table.begin(1, EMPTY, 0)
    count = 100_000
    names = [TableName("app", f"t{n}") for n in range(50)]
    for number in range(1, count + 1):
        if number % every == 0:
            table.add_opaque(Gtid(A, number))
        else:
            table.add_rows(Gtid(A, number), tables(names[number % 50], names[number * 7 % 50]))
        assert table.memory <= limit
    assert 2_500 < table.count() < count
    applied = GtidSet.parse(f"{A}:1-{count}")
    required = GtidSet.parse(f"{A}:1-{count + 5}")
    for number in range(count + 1, count + 6):
        table.add_rows(Gtid(A, number), tables(names[0]))
    assert table.still_required(required, applied, tables(names[0])) is required
    assert table.still_required(required, applied, tables(T1)) == applied
    table.drop(table.read_through)
    assert (table.count(), table.memory) == (0, 0)


def test_the_tables_are_those_of_the_present_primary() -> None:
    topology = Topology("primary:3306", ["replica:3306"])
    assert topology.current_tables is None
    topology.transaction_tables.begin(topology.term, EMPTY, 0)
    assert topology.current_tables is topology.transaction_tables
    topology.primary.observe(A, (1.0, 1.0), EMPTY, EMPTY)
    assert topology.current_tables is None
    topology.transaction_tables.begin(topology.term, EMPTY, 0)
    assert topology.current_tables is not None
    topology.promote(topology.replicas[0])
    assert topology.current_tables is None
