"""COM_BINLOG_DUMP_GTID: what a reader of the mocker's log is sent."""

from collections.abc import Callable

import pytest

from mysql_mocker.server.server import Server
from protocol.binlog.decode import decode
from protocol.binlog.dump_request import HEARTBEATS_V2, NON_BLOCKING, DumpRequest
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

# COM_REGISTER_SLAVE of server 77 at here:3306, without a user and a password.
REGISTER_REPLICA = b"\x15" + (77).to_bytes(4, "little") + b"\x04here\0\0" + b"\xea\x0c" + bytes(8)


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
    decoded = [decode(event) for event in found]
    return [str(event.gtid) for event in decoded if isinstance(event, GtidEvent)]


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


def test_what_a_reader_says_of_checksums_counts_for_the_first_event_alone(
    reader: RawClient,
) -> None:
    with_them = packets(reader, DumpRequest(77, EMPTY, NON_BLOCKING))
    reader.query("SET @source_binlog_checksum = 'NONE'")
    found = packets(reader, DumpRequest(77, EMPTY, NON_BLOCKING))
    assert int.from_bytes(found[0][10:14], "little") == len(found[0]) - 1
    assert found[0][20:] == with_them[0][20:-4]
    assert found[1:] == with_them[1:]


def by_position(reader: RawClient, file: str, position: int = 4) -> list[bytes]:
    return packets(reader, DumpRequest(77, None, NON_BLOCKING, file, position))


def test_a_log_is_sent_from_a_position_on(
    mocker: BackgroundCluster, primary: Server, reader: RawClient
) -> None:
    whole = packets(reader, DumpRequest(77, EMPTY, NON_BLOCKING))
    for file in ("", "binlog.000001", "./binlog.000001"):
        assert by_position(reader, file) == whole
    first, _ = mocker.call(lambda: list(primary.logs.files))
    begin = first.parts[1][0]
    found = by_position(reader, first.name, begin)
    parser = EventParser()
    rotate, described, following = (parser.parse(packet[1:], 0) for packet in found[:3])
    assert decode(rotate) == RotateEvent(first.name, begin)
    assert (described.type, described.header.next_position) == (EventType.FORMAT_DESCRIPTION, 0)
    assert following.type == EventType.GTID
    assert found[2:] == whole[3:]
    ended = by_position(reader, first.name, len(first.data))
    assert decode(parser.parse(ended[2][1:], 0)) == RotateEvent("binlog.000002")


@pytest.mark.parametrize(
    ("file", "position", "message"),
    [
        ("binlog.000009", 4, "Could not find first log file name in binary log index file"),
        ("", 3, "Client requested source to start replication from position < 4"),
        ("", 1 << 20, "Client requested source to start replication from position > file size"),
        ("", 5, "binlog truncated in the middle of event"),
    ],
)
@pytest.mark.parametrize("executed", [None, EMPTY])
def test_who_asks_for_what_is_not_there_is_told(
    reader: RawClient, executed: GtidSet | None, file: str, position: int, message: str
) -> None:
    request = DumpRequest(77, executed, NON_BLOCKING, file, position)
    error = ErrPacket.parse(packets(reader, request)[-1])
    assert error.code == 1236
    assert message in error.message


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
    assert reader.reply("SELECT 1").end  # the connection can still be used


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
    reader.command(REGISTER_REPLICA)
    reader.query("SET @source_heartbeat_period = 20000000")
    had = mocker.call(lambda: primary.gtids.executed)
    reader.send(DumpRequest(77, had, flags).serialise())
    parser = EventParser()
    packet = reader.read_packet_anew()
    while (event := parser.parse(packet[1:], 0)).type not in (
        EventType.HEARTBEAT, EventType.HEARTBEAT_V2,
    ):  # fmt: skip
        packet = reader.read_packet()
    decoded = decode(event)
    assert isinstance(decoded, HeartbeatEvent)
    size = mocker.call(lambda: len(primary.logs.files[-1].data))
    assert (decoded.file, decoded.position or event.header.next_position) == ("binlog.000002", size)
    client.query("INSERT INTO t VALUES (3)")
    while not isinstance(decoded := decode(parser.parse(reader.read_packet()[1:], 0)), GtidEvent):
        pass
    assert str(decoded.gtid) == f"{primary.gtids.server_uuid}:4"
