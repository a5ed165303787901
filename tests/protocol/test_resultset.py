"""Result sets in the text protocol."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.constants import Capability, FieldType
from protocol.errors import MalformedPacketError
from protocol.packet import frame
from protocol.response import OkPacket
from protocol.resultset import (
    ColumnCount,
    ColumnDefinition41,
    parse_text_row,
    text_resultset,
    text_row,
)
from tests.support import vectors
from tests.support.packet_reader import PacketReader

MODERN = (
    Capability.CLIENT_PROTOCOL_41
    | Capability.CLIENT_DEPRECATE_EOF
    | Capability.CLIENT_SESSION_TRACK
)
ROWS = st.lists(st.none() | st.binary(max_size=300), max_size=6)


def test_a_column_as_the_server_describes_it() -> None:
    column = ColumnDefinition41.parse(
        vectors.load("resultset_eof").payloads("ColumnDefinition41")[0]
    )
    assert column == ColumnDefinition41(
        schema="t",
        table="a",
        org_table="a",
        name="id",
        org_name="id",
        character_set=63,
        column_length=20,
        type=FieldType.MYSQL_TYPE_LONGLONG,
        flags=0x4203,
    )


def test_field_list_adds_the_default() -> None:
    columns = [
        ColumnDefinition41.parse(payload)
        for payload in vectors.load("field_list").payloads("ColumnDefinition41")
    ]
    assert [(column.name, column.default) for column in columns] == [
        ("id", b"\x010"),
        ("v", b"\x03ebb"),
        ("n", b"\xfb"),
    ]


def test_a_malformed_column_is_refused() -> None:
    whole = ColumnDefinition41(name="tide").serialise()
    for size in range(len(whole)):
        with pytest.raises(MalformedPacketError):
            ColumnDefinition41.parse(whole[:size])
    with pytest.raises(MalformedPacketError):
        ColumnDefinition41.parse(whole.replace(b"\x04tide\x00\x0c", b"\x04tide\x00\x0d"))
    with pytest.raises(MalformedPacketError):
        ColumnDefinition41.parse(whole + b"\x05ebb")


@given(ROWS)
def test_a_row_is_read_back(values: list[bytes | None]) -> None:
    assert parse_text_row(text_row(values), len(values)) == values


def test_a_row_has_as_many_values_as_columns() -> None:
    payload = text_row([b"ebb", None])
    for columns in (1, 3):
        with pytest.raises(MalformedPacketError):
            parse_text_row(payload, columns)


def test_values_of_all_lengths() -> None:
    [payload] = vectors.load("resultset_long_value").payloads("TextRow")
    values = parse_text_row(payload, 4)
    assert values == [b"a" * 250, b"b" * 251, b"c" * 300, b""]
    assert text_row(values) == payload


@pytest.mark.parametrize(
    "name",
    [
        "resultset_deprecate_eof",
        "resultset_eof",
        "resultset_empty",
        "resultset_empty_eof",
        "resultset_gtid",
        "resultset_warnings",
        "resultset_long_value",
    ],
)
def test_a_result_is_written_as_the_server_writes_it(name: str) -> None:
    vector = vectors.load(name)
    columns = [ColumnDefinition41.parse(p) for p in vector.payloads("ColumnDefinition41")]
    rows = [parse_text_row(p, len(columns)) for p in vector.payloads("TextRow")]
    ended = vector.payloads("OkPacket")
    end = (
        OkPacket.parse(ended[0], vector.capabilities)
        if ended
        else OkPacket(status=int.from_bytes(vector.payloads("EofPacket")[0][3:], "little"))
    )
    written = text_resultset(
        columns,
        rows,
        vector.capabilities,
        end.status,
        warnings=end.warnings,
        session_state=end.session_state,
    )
    assert written == b"".join(packet.data for packet in vector.packets if packet.from_server)


def test_an_eof_has_no_room_for_a_session_state() -> None:
    written = text_resultset(
        [ColumnDefinition41(name="a")], [[b"1"]], Capability(0), 2, session_state=b"\x01\x02\x01t"
    )
    assert written.endswith(b"\x05\x00\x00\x05\xfe\x00\x00\x02\x00")


def test_the_column_count_tells_whether_definitions_follow() -> None:
    vector = vectors.load("resultset_optional_metadata")
    counts = [ColumnCount.parse(p, vector.capabilities) for p in vector.payloads("ColumnCount")]
    assert counts == [ColumnCount(1, True), ColumnCount(1, False), ColumnCount(1, False)]
    optional = MODERN | Capability.CLIENT_OPTIONAL_RESULTSET_METADATA
    assert text_resultset([ColumnDefinition41()], [], optional, 2)[:6] == b"\x02\0\0\1\1\1"
    with pytest.raises(MalformedPacketError):
        ColumnCount.parse(b"\x01", optional)
    with pytest.raises(MalformedPacketError):
        ColumnCount.parse(b"\x01\x01", MODERN)


def test_a_row_of_more_than_16_mib_takes_more_sequence_ids() -> None:
    large = bytes(0xFFFFFF)
    data = text_resultset([ColumnDefinition41(name="a")], [[large]], MODERN, 2, sequence_id=254)
    reader = PacketReader(max_payload=1 << 25, sequence_id=254)
    reader.receive_data(data)
    payloads = []
    while (payload := reader.next_packet()) is not None:
        payloads.append(payload)
    assert parse_text_row(payloads[2], 1) == [large]
    assert reader.sequence_id == 254 + 5 - 256
    assert data.endswith(frame(b"\xfe\x00\x00\x02\x00\x00\x00", 2))
