"""What one worker reads in the log, other workers have; or they have less, and never more."""

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from protocol.gtid import EMPTY, Gtid, GtidSet
from routing.servers import transaction_ring
from routing.servers.topology import Topology
from routing.servers.transaction_ring import RingReader, SharedTransactionTables
from routing.servers.transaction_tables import TableName

A = "168066ae-e53d-11f1-b607-02fc00000001"
B = "191e1ad2-e53d-11f1-b607-02fc00000001"
STARTED = (100.0, 101.0)
LIMIT = 1 << 24
T1, T2 = TableName("app", "t1"), TableName("app", "ä\udcff")


class Workers:
    """The worker that reads the log, and another."""

    def __init__(self) -> None:
        self.memory = memoryview(bytearray(transaction_ring.SIZE))
        self.begin_anew()
        self.topology = Topology("primary:3306", ["replica:3306"])
        self.topology.primary.observe(A, STARTED, EMPTY, EMPTY)
        self.reader = RingReader(self.memory, self.topology)
        self.topology.tables_reader = self.reader

    def begin_anew(self) -> None:
        self.writer = SharedTransactionTables(LIMIT, self.memory)

    def begin(self, read_from: str = f"{A}:1-9") -> None:
        self.writer.begin(7, GtidSet.parse(read_from), 0)

    def sync(self) -> None:
        self.writer.sync(A, STARTED)

    def add(self, number: int, *tables: TableName) -> None:
        """A transaction; without tables it may have changed anything."""
        if tables:
            self.writer.add_rows(Gtid(A, number), frozenset(tables))
        else:
            self.writer.add_opaque(Gtid(A, number))

    @property
    def has_all(self) -> bool:
        """Whether the other worker has what the first has; it has no more, at any rate."""
        tables = self.topology.current_tables
        if tables is None:
            return False
        assert tables.read_through <= self.writer.read_through
        return tables.read_through == self.writer.read_through


def test_another_worker_has_what_was_read() -> None:
    workers = Workers()
    assert workers.topology.current_tables is None
    workers.begin()
    workers.sync()
    assert workers.has_all
    workers.add(10, T1)
    workers.add(11, T1, T2)
    workers.add(13)
    assert workers.has_all
    tables = workers.topology.current_tables
    assert tables is not None
    assert tables.term == workers.topology.term != workers.writer.term
    required, applied = GtidSet.parse(f"{A}:1-11"), GtidSet.parse(f"{A}:1-9:13")
    for read, left in ((T1, f"{A}:1-11"), (T2, f"{A}:1-11"), (TableName("app", "x"), f"{A}:1-9")):
        found = tables.still_required(required, applied, frozenset({read}))
        assert found == GtidSet.parse(left)
    assert tables.still_required(required, GtidSet.parse(f"{A}:1-9"), frozenset()) is required
    workers.writer.forget("it broke")
    assert workers.topology.current_tables is None
    assert tables.cause == "it broke"


@given(
    st.lists(st.sampled_from(["t1", "t2", "both", "opaque", "sync", "refresh"]), max_size=40),
    st.integers(0, 60),
    st.sampled_from([T1, T2]),
)
def test_it_never_leaves_out_more(steps: list[str], missing: int, read: TableName) -> None:
    workers = Workers()
    workers.begin()
    number = 9
    for step in steps:
        if step == "sync":
            workers.sync()
        elif step == "refresh":
            workers.reader.refresh()
        else:
            number += 1
            workers.add(number, *{"t1": [T1], "t2": [T2], "both": [T1, T2], "opaque": []}[step])
    required = GtidSet.of(A, 1, number + 1)
    applied = GtidSet.of(A, 1, max(2, number + 1 - missing))
    names = frozenset({read})
    tables = workers.topology.current_tables
    assert (tables is not None) == ("sync" in steps)
    if tables is not None:
        assert workers.has_all
        least = workers.writer.still_required(required, applied, names)
        assert least <= tables.still_required(required, applied, names) <= required
        if steps[0] == "sync":
            assert tables.still_required(required, applied, names) == least


def test_who_was_too_slow_forgets_and_begins_at_the_next_sync() -> None:
    workers = Workers()
    workers.begin()
    workers.sync()
    assert workers.has_all
    names = [TableName("app", f"a_table_with_a_name_of_some_length_{n}") for n in range(900)]
    number = 9
    before = workers.topology.transaction_tables.version
    while (number - 9) * 40_000 < 2 * transaction_ring.SIZE:
        number += 1
        workers.add(number, *names)
    assert workers.topology.current_tables is None
    assert workers.topology.transaction_tables.version != before
    assert "too slow" in workers.topology.transaction_tables.cause
    workers.sync()
    assert workers.has_all
    # The ring has been around by now.
    for _ in range(300):
        number += 1
        workers.add(number, *names)
        assert workers.has_all


def test_a_transaction_of_too_many_tables_may_have_changed_anything() -> None:
    workers = Workers()
    workers.begin()
    workers.sync()
    workers.add(10, *[TableName("app", f"{n:060}") for n in range(20_000)])
    tables = workers.topology.current_tables
    assert workers.has_all
    assert tables is not None
    required = GtidSet.parse(f"{A}:1-10")
    read = frozenset({TableName("app", "other")})
    assert tables.still_required(required, GtidSet.parse(f"{A}:1-9"), read) is required
    assert workers.writer.still_required(required, GtidSet.parse(f"{A}:1-9"), read) != required


def test_what_is_torn_is_forgotten() -> None:
    workers = Workers()
    workers.begin()
    workers.sync()
    assert workers.has_all
    workers.add(10, T1)
    at = bytes(workers.memory).rindex(b"t1")
    workers.memory[at] ^= 1
    assert workers.topology.current_tables is None
    assert "checksum" in workers.topology.transaction_tables.cause
    workers.sync()
    assert workers.has_all


def test_a_reading_worker_that_began_anew_is_not_gone_on_with() -> None:
    workers = Workers()
    workers.begin()
    workers.sync()
    assert workers.has_all
    workers.begin_anew()
    assert workers.topology.current_tables is None
    workers.begin(f"{A}:1-20")
    workers.add(21, T1)
    assert workers.topology.current_tables is None
    workers.sync()
    workers.add(22, T1)
    assert workers.has_all
    # Nothing was said of its end: as after a crash of the first worker.
    workers.begin(f"{A}:1-30")
    assert workers.topology.current_tables is None


def test_the_primary_must_be_the_same_for_both() -> None:
    workers = Workers()
    workers.begin()
    primary = workers.topology.primary
    primary.observe(A, (200.0, 201.0), EMPTY, EMPTY)
    workers.sync()
    assert workers.topology.current_tables is None
    assert "another primary" in workers.topology.transaction_tables.cause
    workers.writer.sync(A, (200.5, 202.5))
    assert workers.has_all
    primary.observe(B, (200.0, 201.0), EMPTY, EMPTY)
    workers.add(10, T1)
    assert workers.topology.current_tables is None
    workers.writer.sync(A, (200.5, 202.5))
    assert workers.topology.current_tables is None
    workers.writer.sync(B, (200.5, 202.5))
    assert workers.has_all


def test_what_was_read_in_another_way_is_not_mixed() -> None:
    workers = Workers()
    workers.begin()
    workers.sync()
    assert workers.has_all
    tables = workers.topology.transaction_tables
    tables.add_rows(Gtid(A, 99), frozenset({T1}))
    workers.sync()
    assert workers.has_all


def test_the_worker_that_reads_the_log_learns_that_others_find_replicas_late() -> None:
    workers = Workers()
    assert workers.writer.late_at == 0
    workers.reader.tell_late(-inf)
    assert workers.writer.late_at == 0
    workers.reader.tell_late(123.4567)
    assert workers.writer.late_at == 123.456
    RingReader(workers.memory, workers.topology).tell_late(99.0)
    assert workers.writer.late_at == 123.456
    workers.begin()
    workers.sync()
    workers.add(10, T1)
    assert workers.writer.late_at == 123.456
    assert workers.has_all
