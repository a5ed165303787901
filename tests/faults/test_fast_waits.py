"""Reads that wait on the fast path and without: same packets, servers, records and counts."""

import asyncio
from typing import Any, Final

import pytest

from protocol.constants import Capability
from protocol.packet import frame
from protocol.response import OkPacket
from protocol.response_stream import RESULTS, ResponseStream
from routing.consistency.decision import Reason, Scope, TimeoutPolicy
from tests.faults.client import BASE, MODERN, Client, query
from tests.faults.path_fixture import (
    READ,
    WRITE,
    PathFixture,
    Scenario,
    answers_in_groups,
    on_both_paths,
)
from tests.faults.peers import err, rows
from tests.faults.proxy_fixture import eventually, statements_of

_STATUS: Final = OkPacket(status=2).serialise(Capability.CLIENT_PROTOCOL_41)
_WAIT: Final = b"WAIT_FOR_EXECUTED_GTID_SET"
_SEEN: Final = (READ, WRITE, READ, WRITE, READ, READ, "SHOW TIDEGATE LAST")
_IDS: Final = ["modern", "old"]


async def warm_up(path: PathFixture, capabilities: Capability = MODERN) -> Client:
    """A client whose next read behind a write is one that waits."""
    client = await path.client(capabilities)
    for sql in (READ, WRITE, READ, WRITE, READ):
        await path.execute(client, sql)
    await path.execute(client, WRITE)
    return client


async def go_on(path: PathFixture, client: Client) -> None:
    """See that the session is as it was on the other way."""
    replica = path.proxy.shared.topology.replicas[0]
    try:
        for sql in _SEEN:
            await path.execute(client, sql)
            # Else times would tell whether the replica is asked again, and what it has by then.
            replica.caught_up()
            replica.set_reachable()
            await path.proxy.caught_up()
    except (ConnectionError, EOFError):
        path.seen.append("the end")


def _waits(path: PathFixture) -> int:
    return sum("WAIT_FOR" in text for text in statements_of(path.proxy.cluster.replicas[0]))


@pytest.mark.parametrize("capabilities", [MODERN, BASE], ids=_IDS)
async def test_a_read_that_waits_takes_the_fast_path(capabilities: Capability) -> None:
    async def scenario(path: PathFixture) -> None:
        client = await warm_up(path, capabilities)
        waits = _waits(path)
        await path.execute(client, READ)
        assert _waits(path) == waits + 1
        await path.execute(client, READ)
        assert _waits(path) == waits + 1  # what was proved, stands

    assert (await on_both_paths(scenario)).waited_fast == 3


@pytest.mark.parametrize("scope", list(Scope))
@pytest.mark.parametrize("delay", [0.0, 0.01])
async def test_clients_that_write_and_read(scope: Scope, delay: float) -> None:
    async def scenario(path: PathFixture) -> None:
        clients = [await path.client(), await path.client(BASE)]
        if scope is Scope.APPLICATION:
            for client in clients:
                await path.execute(client, "SET tidegate_application = 'shop'")
        for client in clients:
            await path.execute(client, READ)
        for current in range(12):
            client = clients[current % 3 % 2]
            await path.execute(client, WRITE)
            await path.execute(client, READ)

    played = await on_both_paths(scenario, scope=scope, apply_delay=delay, wait_budget=5.0)
    assert played.waited_fast > 0


def _answers(*, modern: bool) -> dict[str, bytes]:
    """What a replica may answer to a WAIT."""

    def result(*lines: list[bytes | None], columns: int = 2) -> bytes:
        return rows(*lines, columns=columns, deprecate_eof=modern)

    whole = result([b"0", b"1"])
    return {
        "reached": whole,
        "reached after all": result([b"1", b"1"]),
        "out of time": result([b"1", b"0"]),
        "reached, and not there": result([b"0", b"0"]),
        "nothing": result([None, None]),
        "other characters": result([b"0", b"\0001"]),
        "no row": result(),
        "two rows": result([b"0", b"1"], [b"0", b"1"]),
        "one value": result([b"0"], columns=1),
        "three values": result([b"0", b"1", b"1"], columns=3),
        "two results": whole[:-4] + b"\x0a\x00\x00\x00" + whole,
        "in a transaction": whole[:-4] + (b"\x03\x00\x00\x00" if modern else b"\0\0\3\0"),
        "an OK": frame(_STATUS, 1),
        "an error": err(1105),
        "an error behind the definitions": result()[:-11] + err(1317, "interrupted", 3),
        "that it goes away": err(1053, "shutdown"),
        "no packet": b"\0\0\0\1",
        "a file": frame(b"\xfb/etc/passwd", 1),
    }


@answers_in_groups(
    [*_answers(modern=True), 0, 3, 4, 5, 20, 60],
    of_old=["reached", "out of time", "no row", "two results", "in a transaction", 60],
)
async def test_any_answer_to_the_wait(answers: list[str | int], capabilities: Capability) -> None:
    """A number is bytes of it behind which the connection breaks."""
    known = _answers(modern=capabilities is MODERN)
    await on_both_paths(answers_to_reads(answers, known, _WAIT, capabilities))


def answers_to_reads(
    answers: list[str | int], known: dict[str, bytes], matching: bytes, capabilities: Capability
) -> Scenario:
    """Each answer goes to a client of its own, whose read waits on the fast path."""

    async def scenario(path: PathFixture) -> None:
        for answer in answers:
            path.seen.append(answer)
            waited_fast = path.waited_fast
            path.proxy.shared.topology.refusals.until.clear()
            client = await warm_up(path, capabilities)
            faults = path.proxy.cluster.replicas[0].faults
            if isinstance(answer, int):
                faults.drop_connection_after(answer, matching=matching)
            else:
                faults.raw_reply(known[answer], matching=matching)
            await go_on(path, client)
            assert not path.fast or path.waited_fast > waited_fast, answer

    return scenario


@pytest.mark.parametrize("on_timeout", list(TimeoutPolicy))
async def test_a_wait_that_runs_out(on_timeout: TimeoutPolicy) -> None:
    async def scenario(path: PathFixture) -> None:
        client = await warm_up(path)
        faults = path.proxy.cluster.replicas[0].faults
        faults.raw_reply(_answers(modern=True)["out of time"], matching=_WAIT)
        await go_on(path, client)

    assert (await on_both_paths(scenario, on_timeout=on_timeout)).waited_fast > 0


@pytest.mark.parametrize("is_there", [True, False])
async def test_a_brief_wait_for_a_late_replica(is_there: bool) -> None:
    """The WAIT may take 2 ms then, whatever the budget is."""

    async def scenario(path: PathFixture) -> None:
        client = await warm_up(path)
        await path.proxy.caught_up()
        (replica,) = path.proxy.shared.topology.replicas
        now = asyncio.get_running_loop().time()
        replica.apply_delay.applied(0.0, 1.0, now)  # so that it may be there, whatever was met
        replica.timed_out(now)
        replica.behind_until = now
        cluster = path.proxy.cluster.replicas[0]
        if not is_there:
            answer = _answers(modern=True)["out of time"]
            cluster.faults.raw_reply(answer, matching=b",0.002)")
        await path.execute(client, READ)
        assert any(",0.002)" in text for text in statements_of(cluster)) is is_there
        reason = path.sessions[client]._current.outcome.reason
        assert reason is (Reason.READ if is_there else Reason.REPLICA_BEHIND)
        waits = path.proxy.shared.metrics.snapshot()["histograms"]["tidegate_wait_duration_seconds"]
        counted = {labels[1]: sum(buckets) for labels, buckets, _ in waits}
        assert (counted["not_yet"], counted["timeout"]) == (0 if is_there else 1, 0)
        await go_on(path, client)

    assert (await on_both_paths(scenario)).waited_fast > 1


_READ_ANSWERS: Final = {
    "an error": err(1064, "no"),
    "an error behind the definitions": rows()[:-11] + err(1317, "interrupted", 3),
    "that it may not": err(1792, "read only transaction"),
    "that it may not write": err(1290, "read only"),
    "that it may not yet": err(1142, "denied"),
    "that it goes away": err(1053, "shutdown"),
    "two results": rows([b"1"])[:-4] + b"\x0a\x00\x00\x00" + rows([b"2"], sequence_id=5),
    "no row": rows(),
    "an OK": frame(_STATUS, 1),
    "rows that began a transaction": rows([b"1"])[:-4] + b"\x03\x00\x00\x00",
    "nothing sensible": frame(b"\x05\x00", 1),
    "a file": frame(b"\xfb/etc/passwd", 1),
}


@answers_in_groups(
    [*_READ_ANSWERS, 0, 3, 4, 5, 20],
    of_old=["an error behind the definitions", "two results", "no row", "an OK", 20],
)
async def test_any_answer_behind_a_wait(answers: list[str | int], capabilities: Capability) -> None:
    """A number is bytes of it behind which the connection breaks."""
    await on_both_paths(answers_to_reads(answers, _READ_ANSWERS, b" t ", capabilities))


class Regrouping(asyncio.Protocol):
    """Lets two answers arrive in chunks of its own making, once it has both."""

    def __init__(self, connection: Any, *ends: int) -> None:
        self._connection = connection
        self._ends = ends
        self._data = b""
        self.size = 0

    def data_received(self, data: bytes) -> None:
        self._data += data
        end = 0
        for _ in range(2):
            stream = ResponseStream(
                self._connection.stream.deprecates_eof, self._connection.stream.session_track
            )
            stream.begin(RESULTS)
            end = stream.feed(self._data, end)
            if not stream.done:
                return
        assert end == len(self._data)
        whole, self._data = self._data, b""
        self.size = end
        begin = 0
        for until in (*self._ends, end):
            if begin < until <= end:
                self._connection.data_received(whole[begin:until])
                begin = until

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def connection_lost(self, error: Exception | None) -> None:
        self._connection.connection_lost(error)


@pytest.mark.parametrize("capabilities", [MODERN, BASE], ids=_IDS)
async def test_both_answers_in_chunks_that_end_anywhere(capabilities: Capability) -> None:
    async def scenario(path: PathFixture) -> None:
        client = await warm_up(path, capabilities)
        await path.execute(client, READ)
        (replica,) = path.sessions[client]._servers.replicas
        at, size = 0, 1
        while at < size:
            regrouping = Regrouping(replica, at)
            await path.execute(client, WRITE)
            replica._transport.set_protocol(regrouping)
            await path.execute(client, READ)
            replica._transport.set_protocol(replica)
            at, size = at + 1, regrouping.size
        assert size > 100

    assert (await on_both_paths(scenario)).waited_fast > 50


@pytest.mark.parametrize("capabilities", [MODERN, BASE], ids=_IDS)
async def test_both_answers_in_more_chunks(capabilities: Capability) -> None:
    async def scenario(path: PathFixture) -> None:
        client = await warm_up(path, capabilities)
        await path.execute(client, READ)
        (replica,) = path.sessions[client]._servers.replicas
        for length in (1, 2, 3, 5, 7, 11, 50):
            await path.execute(client, WRITE)
            replica._transport.set_protocol(Regrouping(replica, *range(0, 300, length)))
            await path.execute(client, READ)
            replica._transport.set_protocol(replica)

    assert (await on_both_paths(scenario)).waited_fast > 0


async def test_a_replica_that_stays_silent() -> None:
    async def scenario(path: PathFixture) -> None:
        client = await warm_up(path)
        gate = path.proxy.cluster.replicas[0].faults.hold_reply(matching=_WAIT)
        await go_on(path, client)
        gate.open()
        await path.execute(client, READ)

    assert (await on_both_paths(scenario, wait_budget=0.05, connect_timeout=0.2)).waited_fast > 0


HAPPENINGS: Final = ("the client leaves", "the primary is lost", "the replica is lost", "a KILL")


@pytest.mark.parametrize("happens", HAPPENINGS)
@pytest.mark.parametrize("held", [_WAIT, b" t "], ids=["before", "behind"])
async def test_what_happens_before_and_behind_the_answer_to_the_wait(
    held: bytes, happens: str
) -> None:
    async def scenario(path: PathFixture) -> None:
        client = await warm_up(path)
        killer = await path.proxy.session()
        session = path.sessions[client]
        raw = err(1317, "interrupted") if happens == "a KILL" else None
        gate = path.proxy.cluster.replicas[0].faults.hold_reply(matching=held, raw=raw)
        client.send(query(READ))
        await eventually(lambda: gate.held == 1)
        if happens == "the client leaves":
            client.abort()
            await eventually(lambda: len(path.proxy.shared.sessions) == 1)
            if held is _WAIT:
                replica = path.proxy.cluster.replicas[0]
                await eventually(lambda: any("KILL" in text for text in statements_of(replica)))
            gate.open()
        elif happens == "the primary is lost":
            session._servers.primary.give_up("test")
            path.seen.append(await client.rest())
            gate.open()
        else:
            if happens == "the replica is lost":
                session._servers.active.give_up("test")
            else:
                assert (await killer.query(f"KILL QUERY {session.connection_id}")).ok
            gate.open()
            path.seen.append((await client.answer()).packets)
            await go_on(path, client)
        assert not any(path.proxy.shared.waits._waits.values())

    assert (await on_both_paths(scenario)).waited_fast > 0


async def test_commands_that_come_in_one_piece() -> None:
    async def scenario(path: PathFixture) -> None:
        client = await warm_up(path)
        await path.execute(client, READ)
        for _ in range(3):
            pieces = (WRITE, READ, READ, WRITE, READ)
            client.send_bytes(b"".join(frame(query(sql), 0) for sql in pieces))
            for _ in pieces:
                path.seen.append([path.plain(item) for item in (await client.answer()).packets])

    await on_both_paths(scenario)


async def test_a_read_that_joins_the_wait_of_another_session() -> None:
    async def scenario(path: PathFixture) -> None:
        client, other = await path.client(), await path.client()
        for sql in (READ, WRITE, READ, WRITE, READ):
            await path.execute(client, sql)
            await path.execute(other, READ)
        await path.execute(client, WRITE)
        gate = path.proxy.cluster.replicas[0].faults.hold_reply(matching=_WAIT)
        client.send(query(READ))
        await eventually(lambda: gate.held == 1)
        await asyncio.sleep(0.01)
        waits = _waits(path)
        other.send(query(READ))
        (wait,) = path.proxy.shared.waits._waits[path.proxy.shared.topology.replicas[0]]
        await eventually(lambda: len(wait.joined) == 1)
        gate.open()
        for each in (client, other):
            path.seen.append((await each.answer()).packets)
        assert _waits(path) == waits
        await go_on(path, other)

    played = await on_both_paths(scenario, scope=Scope.USER, wait_budget=5.0)
    assert played.waited_fast > 0


@pytest.mark.parametrize("share", [0.3, 1.0])
async def test_reads_that_are_audited(share: float) -> None:
    async def scenario(path: PathFixture) -> None:
        client = await warm_up(path)
        for _ in range(5):
            for sql in (READ, WRITE, READ, WRITE):
                await path.execute(client, sql)

    assert ((await on_both_paths(scenario, self_audit=share)).waited_fast > 0) == (share < 1)


@pytest.mark.parametrize("change", ["strayed", "down", "gtids", "doubt", "behind", "epoch"])
async def test_servers_that_change_between_write_and_read(change: str) -> None:
    async def scenario(path: PathFixture) -> None:
        topology, now = path.proxy.shared.topology, path.proxy.shared.now()
        primary, replica = topology.primary, topology.replicas[0]
        client = await warm_up(path)
        if change == "epoch":
            replica.distrust(replica.epoch)
        elif change == "strayed":
            replica.diverged_gtids = replica.applied
        elif change == "down":
            replica.set_silent(now + 3600)
        elif change == "gtids":
            primary.gtids = False
        elif change == "doubt":
            replica.proof_max_age = 0.0
        else:
            replica.timed_out(now + 3600, 1.0)
        for sql in (READ, WRITE, READ, READ):
            await path.execute(client, sql)

    assert (await on_both_paths(scenario)).waited_fast > 0
