"""COM_BINLOG_DUMP_GTID: what a reader of the mocker's log is sent."""

from collections.abc import Callable

import pytest

from mysql_mocker.server.server import Server
from protocol.binlog.decode import decode
from protocol.binlog.dump_request import HEARTBEATS_V2, NON_BLOCKING, DumpRequest, register_replica
from protocol.binlog.event import ARTIFICIAL, Event, EventType
from protocol.binlog.gtid_event import GtidEvent
from protocol.binlog.heartbeat import HeartbeatEvent
from protocol.binlog.log_reader import EventParser
from protocol.binlog.rotate import RotateEvent
from protocol.gtid import EMPTY, GtidSet
from protocol.response import ErrPacket
from tests.mysql_mocker.raw_client import RawClient
from tests.support.background_cluster import BackgroundCluster

Connect = Callable[..., RawClient]


@pytest.fixture
def reader(connect: Connect, client: RawClient) -> RawClient:
    client.query("CREATE TABLE t (n INT)")
    client.query("INSERT INTO t VALUES (1)")
    client.query("FLUSH BINARY LOGS")
    client.query("INSERT INTO t VALUES (2)")
    reader = connect()
    reader.query("SET @source_binlog_checksum = @@global.binlog_checksum")
    return reader


def packets(reader: RawClient, request: DumpRequest) -> list[bytes]:
    """All packets of an answer that ends."""
    reader.send(request.serialise())
    found = [reader.read_packet_anew()]
    while found[-1][0] == 0:
        found.append(reader.read_packet())
    return found


def events(reader: RawClient, executed: GtidSet = EMPTY, *, checksum: bool = True) -> list[Event]:
    found = packets(reader, DumpRequest(77, executed, NON_BLOCKING))
    assert found.pop()[0] == 0xFE
    parser = EventParser(checksum=checksum)
    return [parser.parse(packet[1:], 0) for packet in found]


def gtids(found: list[Event]) -> list[str]:
    said = [decode(event) for event in found]
    return [str(event.gtid) for event in said if isinstance(event, GtidEvent)]


def test_all_files_are_sent_each_behind_its_name(
    mocker: BackgroundCluster, primary: Server, reader: RawClient
) -> None:
    found = events(reader)
    names = [decode(event) for event in found if event.header.flags & ARTIFICIAL]
    assert names == [RotateEvent("binlog.000001"), RotateEvent("binlog.000002")]
    uuid = primary.gtids.server_uuid
    assert gtids(found) == [f"{uuid}:1", f"{uuid}:2", f"{uuid}:3"]
    in_files = b"".join(mocker.call(lambda: [bytes(file.data) for file in primary.logs.files]))
    sent = [event for event in found if not event.header.flags & ARTIFICIAL]
    assert all(event.body in in_files for event in sent)


def test_what_the_reader_has_is_left_out_and_whole_files_of_it(
    primary: Server, reader: RawClient
) -> None:
    uuid = primary.gtids.server_uuid
    assert gtids(events(reader, GtidSet.parse(f"{uuid}:2"))) == [f"{uuid}:1", f"{uuid}:3"]
    found = events(reader, GtidSet.parse(f"{uuid}:1-2"))
    assert decode(found[0]) == RotateEvent("binlog.000002")
    assert gtids(found) == [f"{uuid}:3"]
    assert gtids(events(reader, GtidSet.parse(f"{uuid}:1-3"))) == []


def test_a_reader_without_checksums_gets_none(reader: RawClient) -> None:
    with_them = events(reader)
    reader.query("SET @source_binlog_checksum = 'NONE'")
    found = packets(reader, DumpRequest(77, EMPTY, NON_BLOCKING))[:-1]
    first = found[0][1:]
    assert int.from_bytes(first[9:13], "little") == len(first)
    assert first[19:] == with_them[0].body
    bodies = [packet[20:] for packet in found if packet[5] != EventType.FORMAT_DESCRIPTION]
    kept = [event.body for event in with_them if event.type != EventType.FORMAT_DESCRIPTION]
    assert bodies == kept


@pytest.mark.parametrize(
    ("executed", "message"),
    [("{uuid}:1-99", "more GTIDs than the source has"), ("", "purged required binary logs")],
)
def test_who_cannot_go_on_is_told(
    primary: Server, client: RawClient, reader: RawClient, executed: str, message: str
) -> None:
    if not executed:
        client.query("PURGE BINARY LOGS TO 'binlog.000002'")
    own = GtidSet.parse(executed.format(uuid=primary.gtids.server_uuid))
    error = ErrPacket.parse(packets(reader, DumpRequest(77, own))[-1])
    assert error.code == 1236
    assert message in error.message
    assert reader.one("SELECT 1").end  # the connection can still be used


def test_a_reader_that_says_nothing_of_checksums_is_refused(
    connect: Connect, reader: RawClient
) -> None:
    del reader
    error = ErrPacket.parse(packets(connect(), DumpRequest(77))[-1])
    assert (error.code, "checksum" in error.message) == (1236, True)


@pytest.mark.parametrize("flags", [0, HEARTBEATS_V2])
def test_heartbeats_come_where_nothing_is_written_and_then_what_is(
    mocker: BackgroundCluster, primary: Server, client: RawClient, reader: RawClient, flags: int
) -> None:
    reader.command(register_replica(77, "here", 3306))
    reader.query("SET @source_heartbeat_period = 20000000")
    had = mocker.call(lambda: primary.gtids.executed)
    reader.send(DumpRequest(77, had, flags).serialise())
    parser = EventParser()
    packet = reader.read_packet_anew()
    while (event := parser.parse(packet[1:], 0)).type not in (
        EventType.HEARTBEAT, EventType.HEARTBEAT_V2,
    ):  # fmt: skip
        packet = reader.read_packet()
    said = decode(event)
    assert isinstance(said, HeartbeatEvent)
    place = mocker.call(lambda: len(primary.logs.files[-1].data))
    assert (said.file, said.position or event.header.next_position) == ("binlog.000002", place)
    client.query("INSERT INTO t VALUES (3)")
    while not isinstance(said := decode(parser.parse(reader.read_packet()[1:], 0)), GtidEvent):
        pass
    assert str(said.gtid) == f"{primary.gtids.server_uuid}:4"
