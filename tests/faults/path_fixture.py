"""Plays a scenario on the fast path and without, and compares what came of it."""

import difflib
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from protocol.constants import Capability
from protocol.response_stream import RESULTS
from routing.consistency.decision import Proof
from routing.record import RecordStream
from routing.session.plain import is_plain
from tests.faults.client import BASE, MODERN, Client
from tests.faults.proxy_fixture import ProxyFixture, proxy_fixture, statements_of

_VARIABLE: Final = {
    *("v", "proxy", "run", "seq", "session", "scope_key"),
    *("arrived_us", "dispatched_us", "ended_us", "wait_us", "snapshot_us"),
    # Of what a replica is known to have, a decision that stands tells what was enough for it.
    "proof_set",
}
"""What records differ in."""
_COUNTED: Final = (
    *("tidegate_statements_total", "tidegate_gtids_tracked_total", "tidegate_errors_total"),
    *("tidegate_required_unknown_total", "tidegate_fallbacks_total", "tidegate_stale_reads_total"),
    *("tidegate_unlogged_writes_total", "tidegate_pins_total", "tidegate_audited_reads_total"),
    "tidegate_waits_killed_total",
)
_WAITS: Final = "tidegate_wait_duration_seconds"
READ: Final = "SELECT n FROM t WHERE id = 1"
WRITE: Final = "UPDATE t SET n = n + 1 WHERE id = 1"
WIDE: Final = "INSERT INTO wide VALUES (1, '" + "x" * 300_000 + "')"
_WAIT = re.compile(r"(WAIT_FOR_EXECUTED_GTID_SET\([^']*'[^']*'),[0-9.]+")
"""How long a WAIT may take is what the read has left of its budget, by the clock."""
_IN_GROUP: Final = 6
"""Answers of which one test's servers give one after the other."""
_NUMBERS: Final = re.compile(rb"\b\d+(\.\d+)? ?(ms|us|s)\b|\A\d+\.\d+\Z")
"""Times: with their unit, and the milliseconds of a wait."""


@dataclass
class PathFixture:
    """What came of a scenario, on one way or the other.

    Attributes:
        proxy: the proxy.
        fast: the fast path is open.
        seen: packets of answers, as the clients got them.
        went_fast: statements that took it.
        waited_fast: those of them that had a WAIT in front.
        sessions: of the clients.
    """

    proxy: ProxyFixture
    fast: bool
    log: RecordStream
    seen: list[Any] = field(default_factory=list)
    went_fast: int = 0
    waited_fast: int = 0
    sessions: dict[Client, Any] = field(default_factory=dict)

    async def client(self, capabilities: Capability = MODERN, **options: Any) -> Client:
        """A client whose session takes the fast path, or does not."""
        before = set(self.proxy.shared.sessions)
        client = await self.proxy.session(capabilities=capabilities, **options)
        (session,) = set(self.proxy.shared.sessions) - before
        self.sessions[client] = session
        if not self.fast:
            session.client.fast = None
        return client

    async def execute(self, client: Client, sql: str | bytes, shape: int = RESULTS) -> list[bytes]:
        """Send a statement, or any command, and see what comes."""
        if isinstance(sql, str):
            answer = await client.query(sql)
        else:
            client.send(sql)
            answer = await client.answer(shape, text=False)
        self._look(client)
        packets = answer.packets
        if isinstance(sql, str) and "TIDEGATE" in sql:
            packets = [_without_times(packet) for packet in packets]
        self.seen.append((sql, [self.plain(packet) for packet in packets]))
        return answer.packets

    def _look(self, client: Client) -> None:
        """See that a session which thinks that it is plain is."""
        session = self.sessions[client]
        state, settings = session.state, session._session_context.settings
        outcome = session._current.outcome
        if outcome.proof is Proof.WAITED and session._read.decision is not outcome.decision:
            self.waited_fast += 1  # the machine has never heard of it
        self.went_fast += state.plain  # else it did not stay so
        if state.plain:
            assert is_plain(state)
            assert not settings.undone

    def plain(self, data: bytes) -> bytes:
        """Without what differs from cluster to cluster."""
        for number, server in enumerate(self.proxy.cluster.servers):
            data = data.replace(server.gtids.server_uuid.encode(), b"<uuid %d>" % number)
            data = data.replace(server.address.encode(), b"<server %d>" % number)
        return data

    def _text(self, text: str) -> str:
        return self.plain(text.encode()).decode()

    @property
    def outcome(self) -> dict[str, Any]:
        """All that the two ways must have in common."""
        self.log.finish()
        records = []
        for line in self._text(self.log.take(1 << 30)).splitlines():
            found = json.loads(line)
            if found["kind"] == "statement":
                found["proof_set"] = None
                found["scope_key"] = found["scope_key"].partition("/")[2]
                records.append({name: found[name] for name in found if name not in _VARIABLE})
        snapshot = self.proxy.shared.metrics.snapshot()["values"]
        counts = {
            name: sorted((self._text(" ".join(labels)), value) for labels, value in snapshot[name])
            for name in _COUNTED
        }
        waits = self.proxy.shared.metrics.snapshot()["histograms"][_WAITS]
        counts["waits"] = sorted(
            (self._text(" ".join(labels)), sum(buckets)) for labels, buckets, _ in waits
        )
        ran = [
            [_WAIT.sub(r"\1", self._text(text)) for text in statements_of(server)]
            for server in self.proxy.cluster.servers
        ]
        return {"seen": self.seen, "ran": ran, "records": records, "counts": counts}


@asynccontextmanager
async def path_fixture(fast: bool, **options: Any) -> AsyncIterator[PathFixture]:
    log = RecordStream("gate", 0, "a1", 1 << 26)
    # What the monitor sees, and when, would tell which reads wait; of two replicas times would tell
    # which is asked. On a busy machine a WAIT may take its time.
    options = {"monitor_interval": 3600.0, "wait_budget": 20.0, **options}
    async with proxy_fixture(log=log, **options) as proxy:
        direct = await proxy.direct()
        for sql in (
            "CREATE TABLE t (id INT PRIMARY KEY, n INT, s TEXT)",
            "INSERT INTO t VALUES (1, 10, 'one'), (2, 20, NULL), (3, 30, '')",
            "CREATE TABLE wide (id INT PRIMARY KEY, s TEXT)",
            "CREATE PROCEDURE adds() INSERT INTO t VALUES (77, 7, 'seven')",
        ):
            assert (await direct.query(sql)).ok
        assert (await direct.query(WIDE)).ok
        await proxy.caught_up()
        yield PathFixture(proxy, fast, log)


def _without_times(packet: bytes) -> bytes:
    """A row or a definition of a column whose texts tell of times, which differ in length, too."""
    values, at = [], 0
    while at < len(packet):
        end = at + 1 + packet[at]
        values.append(_NUMBERS.sub(b"_", packet[at + 1 : end]))
        at = end
    if values[4:5] == [b"wait_ms"]:
        values.pop()  # a column is as wide as its value
    return b"|".join(values)


def answers_to_clients(answers: Collection[str | int], of_old: Collection[str | int]) -> Any:
    """Parameters `answer` and `capabilities`.

    Every answer goes to a client of today; to one that knows neither session trackers nor another
    end than EOF those in `of_old`, and in the deep run all.
    """
    modern = [pytest.param(answer, MODERN, id=f"{answer}-modern") for answer in answers]
    old = [
        pytest.param(
            *(answer, BASE),
            id=f"{answer}-old",
            marks=() if answer in of_old else pytest.mark.deep,
        )
        for answer in answers
    ]
    return pytest.mark.parametrize(("answer", "capabilities"), [*modern, *old])


def answers_in_groups(answers: Sequence[str | int], of_old: Sequence[str | int]) -> Any:
    """Parameters `answers`, some of them, and `capabilities`; who gets which as above."""
    others = [answer for answer in answers if answer not in of_old]
    parts = [
        pytest.param(part[at : at + _IN_GROUP], capabilities, id=f"{part[at]}-{name}", marks=marks)
        for part, capabilities, name, marks in (
            (answers, MODERN, "modern", ()),
            (of_old, BASE, "old", ()),
            (others, BASE, "old", pytest.mark.deep),
        )
        for at in range(0, len(part), _IN_GROUP)
    ]
    return pytest.mark.parametrize(("answers", "capabilities"), parts)


def _difference(part: str, slow: Any, quick: Any) -> str:
    """Where two outcomes begin to differ, with what was alike before."""
    texts = [
        [str(entry)[:300] for found in outcome for entry in (found if part == "ran" else [found])]
        for outcome in (slow, quick)
    ]
    return "\n".join([part, *difflib.unified_diff(*texts, "slow", "quick", lineterm="", n=4)][:30])


Scenario = Callable[[PathFixture], Awaitable[None]]


async def on_both_paths(scenario: Scenario, **options: Any) -> PathFixture:
    """Play it on either way, and compare; gives what came of it on the fast path."""
    outcomes = []
    for fast in (False, True):
        async with path_fixture(fast, **options) as path:
            await scenario(path)
            outcomes.append(path.outcome)
            assert fast or path.went_fast == path.waited_fast == 0
            last = path
    slow, quick = outcomes
    for part, found in slow.items():
        assert quick[part] == found, _difference(part, found, quick[part])
    return last
