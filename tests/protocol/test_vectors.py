"""Every packet that a real server or client sent is read whole and written back as it was."""

import pytest

from protocol.errors import MalformedPacketError
from protocol.packet import frame
from tests.support import vectors
from tests.support.codecs import CODECS
from tests.support.packet_reader import PacketReader

# What may stand behind the fields that are known is ignored, or belongs to the last field.
OPEN_ENDED = {
    "AuthMoreData",
    "AuthSwitchRequest",
    "COM_CHANGE_USER",
    "COM_FIELD_LIST",
    "COM_INIT_DB",
    "COM_QUERY",
    "COM_STMT_PREPARE",
    "COM_STMT_SEND_LONG_DATA",
    "ErrPacket",
    "HandshakeResponse41",
    "HandshakeV10",
}


@pytest.fixture(params=vectors.names())
def vector(request: pytest.FixtureRequest) -> vectors.Vector:
    return vectors.load(request.param)


def test_a_packet_is_written_as_it_was_read(vector: vectors.Vector) -> None:
    for packet in vector.packets:
        assert frame(packet.payload, packet.sequence_id) == packet.data
        if codec := CODECS.get(packet.kind):
            value = codec.parse(packet.payload, vector.capabilities)
            assert codec.serialise(value, vector.capabilities) == packet.payload


def test_a_packet_with_bytes_behind_it_is_refused(vector: vectors.Vector) -> None:
    for packet in vector.packets:
        if packet.kind in CODECS and packet.kind not in OPEN_ENDED:
            with pytest.raises(MalformedPacketError):
                CODECS[packet.kind].parse(packet.payload + b"\xff\xff", vector.capabilities)


@pytest.mark.parametrize("from_server", [True, False])
@pytest.mark.parametrize("step", [1, 3, 1 << 20])
def test_packets_are_found_however_they_are_cut(
    vector: vectors.Vector, from_server: bool, step: int
) -> None:
    packets = [packet for packet in vector.packets if packet.from_server is from_server]
    reader = PacketReader(max_payload=1 << 16)
    waiting = list(packets)
    trailing = b"\x02\x00"
    data = b"".join(packet.data for packet in packets) + trailing
    for begin in range(0, len(data), step):
        reader.receive_data(data[begin : begin + step])
        while waiting:
            reader.sequence_id = waiting[0].sequence_id
            payload = reader.next_packet()
            if payload is None:
                break
            assert payload == waiting.pop(0).payload
    assert not waiting
    assert reader.take_rest() == trailing
