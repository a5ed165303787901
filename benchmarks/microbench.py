"""What the pure functions on the path of a statement cost: ``python -m benchmarks.microbench``.

Every case is run alone, in a loop of at least 0.2 s, several times, and the least processor time
counts, since other work on the machine only adds to it. The figures help to choose between two ways
to write a function; what matters in the end is the processor time per query of the whole proxy
(``./dev bench``).
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from timeit import Timer
from typing import Final

from protocol import compiled, session_track
from protocol.constants import (
    AUTOCOMMIT,
    SESSION_STATE_CHANGED,
    Capability,
)
from protocol.constants import Command as Code
from protocol.gtid import GtidSet
from protocol.packet import frame
from protocol.response import OkPacket
from protocol.response_stream import RESULTS, SIMPLE, ResponseStream
from protocol.resultset import ColumnDefinition41, text_resultset
from protocol.tracker_view import TrackerView
from routing.consistency.decision import (
    Decision,
    Level,
    Outcome,
    Proof,
    Reason,
    Scope,
    TimeoutPolicy,
)
from routing.consistency.rules import Rules
from routing.policy import choose
from routing.record import (
    RecordStream,
    Route,
    server_fragment,
    session_fragment,
    statement_fragment,
)
from routing.request.command import Command
from routing.request.outcome import CommandOutcome
from routing.servers.topology import Role, Server, Topology
from routing.session.session import Session
from routing.sql.classifier import Classifier
from routing.sql.statement import classify

_UUIDS: Final = (
    "3e11fa47-71ca-11e1-9e33-c80aa9429562",
    "8a94f357-aab4-11df-86ab-c80aa9429563",
    "c9a1b2d0-aab4-11df-86ab-c80aa9429564",
)
_MODERN: Final = (
    Capability.CLIENT_PROTOCOL_41
    | Capability.CLIENT_DEPRECATE_EOF
    | Capability.CLIENT_SESSION_TRACK
)


@dataclass(frozen=True, slots=True)
class Case:
    """One function with one kind of input.

    Attributes:
        name: what is measured.
        call: runs it once.
        megabytes: how much data one call handles, if a rate says more than a time.
    """

    name: str
    call: Callable[[], object]
    megabytes: float = 0.0


def cases() -> Iterator[Case]:
    """All cases."""
    yield from _classification()
    yield from _gtid_sets()
    yield from _responses()
    yield from _decisions()
    yield from _records()


def _classification() -> Iterator[Case]:
    point = b"SELECT c FROM sbtest1 WHERE id=5012"
    long = (
        b"SELECT o.id, o.total, c.name FROM orders AS o JOIN customer AS c ON c.id = o.customer "
        b"WHERE o.state IN ('new', 'paid') AND o.created > '2026-01-01' AND c.region = 17 "
        b"ORDER BY o.created DESC LIMIT 50"
    )
    yield Case("classify, nothing cached: point select", lambda: classify(point))
    yield Case("classify, nothing cached: join of 200 bytes", lambda: classify(long))
    classifier = Classifier()
    classifier.classify(point, 0)
    yield Case("classify, same bytes as before", lambda: classifier.classify(point, 0))
    fresh = _fresh_ids()
    yield Case("classify, same skeleton, new literal", lambda: classifier.classify(next(fresh), 0))


def _fresh_ids() -> Iterator[bytes]:
    number = 10_000_000
    while True:
        number += 1
        yield b"SELECT c FROM sbtest1 WHERE id=%d" % number


def _gtid_sets() -> Iterator[Case]:
    interval = f"{_UUIDS[0]}:1-81723"
    single, own = GtidSet.parse(interval), GtidSet.parse(f"{_UUIDS[0]}:81724")
    yield Case("GtidSet.parse, 1 interval", lambda: GtidSet.parse(interval))
    yield Case("GtidSet |, 1 interval and its next GTID", lambda: single | own)
    yield Case("GtidSet <=, 1 GTID in 1 interval", lambda: own <= single)
    three = ",".join(f"{uuid}:1-81723" for uuid in _UUIDS)
    triple = GtidSet.parse(three)
    yield Case("GtidSet.parse, 3 UUIDs", lambda: GtidSet.parse(three))
    yield Case("GtidSet <=, 1 GTID in 3 UUIDs", lambda: own <= triple)
    gaps = _UUIDS[0] + "".join(f":{10 * n + 1}-{10 * n + 8}" for n in range(1000))
    many = GtidSet.parse(gaps)
    late = GtidSet.parse(f"{_UUIDS[0]}:9991")
    yield Case("GtidSet.parse, 1000 intervals", lambda: GtidSet.parse(gaps))
    yield Case("GtidSet |, 1000 intervals and 1 GTID", lambda: many | late)
    yield Case("GtidSet <=, 1 GTID in 1000 intervals", lambda: late <= many)
    yield Case("GtidSet.compact, 1000 intervals", lambda: many.compact(single))


def _responses() -> Iterator[Case]:
    column = ColumnDefinition41(schema="bench", table="sbtest1", name="c", org_name="c")
    row = [b"68487932199-96439406143-93774651418-41631865787-96406072701-20604855487-25459966574"]
    for name, capabilities in (("", _MODERN), (", EOF packets", Capability.CLIENT_PROTOCOL_41)):
        answer = text_resultset([column], [row], capabilities, AUTOCOMMIT)
        stream = ResponseStream(
            bool(capabilities & Capability.CLIENT_DEPRECATE_EOF), session_track=True
        )
        yield Case(f"ResponseStream, point select{name}", _fed(stream, RESULTS, answer))
    block = session_track.gtids_entry(GtidSet.parse(f"{_UUIDS[0]}:81724"))
    tracked = frame(
        OkPacket(1, 0, AUTOCOMMIT | SESSION_STATE_CHANGED, 0, b"", block).serialise(_MODERN), 1
    )
    stream = ResponseStream(deprecate_eof=True, session_track=True)
    yield Case("ResponseStream, OK with a GTID", _fed(stream, SIMPLE, tracked))
    view = TrackerView(_MODERN, frozenset({1}))

    def hide() -> object:
        stream.begin(SIMPLE)
        stream.feed(tracked)
        return view.client_bytes(stream)

    yield Case("TrackerView, OK with a GTID", hide)
    yield Case("session_track.gtids, 1 GTID", lambda: session_track.gtids(block))

    rows = [[b"%d" % number, b"%d" % (number * 7919)] for number in range(10_000)]
    table = text_resultset([column, column], rows, _MODERN, AUTOCOMMIT)
    chunks = [table[at : at + 65536] for at in range(0, len(table), 65536)]
    stream = ResponseStream(deprecate_eof=True, session_track=True)

    def walk() -> None:
        stream.begin(RESULTS)
        for chunk in chunks:
            stream.feed(chunk)

    yield Case("ResponseStream, 10,000 short rows", walk, len(table) / 1e6)


def _fed(stream: ResponseStream, shape: int, answer: bytes) -> Callable[[], object]:
    def call() -> object:
        stream.begin(shape)
        return stream.feed(answer)

    return call


def _decisions() -> Iterator[Case]:
    topology = Topology("db1:3306", ["db2:3306", "db3:3306"])
    session = Session(
        Rules(Level.READ_OWN_WRITES, Scope.CONNECTION, 0.25, TimeoutPolicy.PRIMARY), 0
    )
    own = GtidSet.parse(f"{_UUIDS[0]}:81724")
    session.own_scope.own = own
    statement = classify(b"SELECT c FROM sbtest1 WHERE id=5012")
    yield Case("choose, replicas behind", lambda: choose(session, statement, topology, 1.0))
    applied = GtidSet.parse(f"{_UUIDS[0]}:1-81730")
    for replica in topology.replicas:
        replica.add_proof(applied, replica.epoch)
    yield Case("choose, replicas caught up", lambda: choose(session, statement, topology, 1.0))


def _records() -> Iterator[Case]:
    stream = RecordStream("bench", 1, "0123456789abcdef", 64 << 20)
    rules = Rules(Level.READ_OWN_WRITES, Scope.CONNECTION, 0.25, TimeoutPolicy.PRIMARY)
    session = session_fragment(17, "app", "shop", "0123456789abcdef/17", rules)
    statement = statement_fragment("COM_QUERY", "read", "0123456789abcdef", may_write=False)
    fragment = server_fragment("db2:3306", _UUIDS[0], "replica", 3)
    route = Route(fragment, Reason.READ, Proof.KNOWN, Outcome.OK)
    now = 1_795_243_636_000_000
    command = Command(Code.COM_QUERY, rules, arrived_us=now)
    proof_set = GtidSet.parse(f"{_UUIDS[0]}:1-81730")
    server = Server("db2:3306", Role.REPLICA)
    outcome = CommandOutcome(command, Decision(server, Reason.READ, Proof.KNOWN, proof_set))
    outcome.required = GtidSet.parse(f"{_UUIDS[0]}:81724")
    outcome.dispatched_us, outcome.ended_us = now + 90, now + 250
    outcome.received, outcome.ordinal = 210, 5

    def render() -> None:
        stream.statement(session, statement, route, command, outcome, 0, 1)
        stream.take(1)

    yield Case("RecordStream.statement and take", render)


def measure(case: Case, repeats: int) -> float:
    """The least processor time of one call, in seconds."""
    timer = Timer(case.call, timer=time.process_time)
    number, _ = timer.autorange()
    return min(timer.repeat(repeats, number)) / number


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for every case; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.microbench", description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="(default 5)")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name has TEXT")
    options = parser.parse_args(arguments)
    print("compiled modules" if compiled() else "plain Python")
    for case in cases():
        if options.only.lower() in case.name.lower():
            seconds = measure(case, options.repeats)
            rate = f"  {seconds * 1e6 / case.megabytes:8.0f} µs/MB" if case.megabytes else ""
            print(f"{case.name:55} {seconds * 1e6:10.2f} µs{rate}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
