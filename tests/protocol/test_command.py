"""Commands, their attributes and their parameters."""

import dataclasses
import struct

import pytest

from protocol.command import (
    ComChangeUser,
    ComFieldList,
    ComInitDb,
    ComQuery,
    ComSetOption,
    ComStmtClose,
    ComStmtExecute,
    ComStmtFetch,
    ComStmtPrepare,
    ComStmtReset,
    ComStmtSendLongData,
    QueryAttribute,
    com_query,
    query_text_offset,
)
from protocol.constants import Capability, FieldType
from protocol.errors import MalformedPacketError
from protocol.parameter import UNSIGNED, ParameterType
from tests.support import vectors

STRING = int(FieldType.MYSQL_TYPE_STRING)
LONGLONG = int(FieldType.MYSQL_TYPE_LONGLONG)
PLAIN = Capability.CLIENT_PROTOCOL_41
PLUGINS = PLAIN | Capability.CLIENT_PLUGIN_AUTH


def executes(name: str, parameters: int) -> list[ComStmtExecute]:
    vector = vectors.load(name)
    named = bool(vector.capabilities & Capability.CLIENT_QUERY_ATTRIBUTES)
    found = []
    for payload in vector.payloads("COM_STMT_EXECUTE"):
        execute = ComStmtExecute.parse(payload, parameters, named)
        assert execute.serialise(named) == payload
        found.append(execute)
    return found


def test_a_query_without_attributes() -> None:
    assert com_query(b"DO 1", query_attributes=False) == b"\x03DO 1"
    assert com_query(b"DO 1", query_attributes=True) == b"\x03\x00\x01DO 1"
    assert ComQuery.parse(b"\x03\x00\x01DO 1", query_attributes=True) == ComQuery(b"DO 1")
    assert ComQuery.parse(b"\x03\x00\x01DO 1", query_attributes=False).sql == b"\x00\x01DO 1"


def test_attributes_of_every_type() -> None:
    with_all, without = vectors.load("query_attributes").payloads("COM_QUERY")
    query = ComQuery.parse(with_all, query_attributes=True)
    assert query.sql == b"SELECT 1"
    assert {attribute.name: attribute.text for attribute in query.attributes} == {
        "tiny": "-1",
        "utiny": "255",
        "short": "-1000",
        "long": "-70000",
        "longlong": "-1",
        "ulonglong": str(2**64 - 1),
        "float": "1.5",
        "double": "-2.25",
        "null": None,
        "date": None,
        "datetime": None,
        "timestamp": None,
        "time": None,
        "zero": None,
        "string": "gate",
        "blob": "\0\udcff",
        "decimal": "1.25",
        "nothing": None,
    }
    values = {attribute.name: attribute.value for attribute in query.attributes}
    assert values["null"] is None
    assert values["nothing"] is None
    assert values["zero"] == b""
    assert values["date"] == bytes.fromhex("ea070b15")
    assert values["time"] == bytes.fromhex("01010000000e1e05")
    assert with_all[query_text_offset(with_all, query_attributes=True) :] == b"SELECT 1"
    assert query.serialise(query_attributes=False) == b"\x03SELECT 1"
    assert ComQuery.parse(without, query_attributes=True) == ComQuery(b"SELECT 2")


def test_attributes_of_the_command_line_client() -> None:
    payload = vectors.load("client_mysql_cli").payloads("COM_QUERY")[2]
    assert ComQuery.parse(payload, query_attributes=True).attributes == (
        QueryAttribute("tidegate.consistency", STRING, b"STRONG"),
        QueryAttribute("page", STRING, b"12"),
    )


def test_where_the_text_of_a_query_begins() -> None:
    assert query_text_offset(b"\x03DO 1", query_attributes=False) == 1
    assert query_text_offset(b"\x03\x00\x01DO 1", query_attributes=True) == 3
    # The same number in a longer form.
    assert query_text_offset(b"\x03\xfc\x00\x00\x01DO 1", query_attributes=True) == 5


@pytest.mark.parametrize(
    "payload",
    [
        b"\x03",
        b"\x03\x00",
        b"\x03\x00\x00DO 1",
        b"\x03\x00\x02DO 1",
        b"\x03\xfb\x01DO 1",
        b"\x03\x01\x01",
        b"\x03\x01\x01\x00\x00\x08\x00\x01n12345678DO 1",  # new_params_bind_flag is 0
        b"\x03\x01\x01\x00\x01\x08\x00\x01n1234567",  # the value is cut off
        b"\x03\x01\x01\x00\x01\x0e\x00\x01nDO 1",  # no type of a parameter
        b"\x03\x01\x01\x00\x01\x0a\x00\x01n\x0e" + bytes(14),  # no date is that long
        b"\x03\xfe" + b"\xff" * 8 + b"\x01" + bytes(100),  # more attributes than bytes
        b"\x03\xfd\xff\xff\xff\x01" + bytes(100),
    ],
)
def test_malformed_attributes_are_refused(payload: bytes) -> None:
    with pytest.raises(MalformedPacketError):
        ComQuery.parse(payload, query_attributes=True)
    with pytest.raises(MalformedPacketError):
        query_text_offset(payload, query_attributes=True)


def test_nulls_are_a_bitmap() -> None:
    attributes = tuple(
        QueryAttribute(f"n{i}", STRING, None if i in (0, 7, 8) else b"v") for i in range(10)
    )
    payload = ComQuery(b"DO 1", attributes).serialise(query_attributes=True)
    assert payload[3:5] == b"\x81\x01"
    assert ComQuery.parse(payload, query_attributes=True).attributes == attributes


def test_an_execution_with_types_and_one_without() -> None:
    first, second = executes("stmt", 2)
    expected = (
        QueryAttribute("", LONGLONG, struct.pack("<q", 1)),
        QueryAttribute("", 253, b"neap"),
    )
    assert first.decode() == expected
    assert second.types is None
    assert second.decode(first.types) == expected
    with pytest.raises(MalformedPacketError):
        second.decode()


def test_an_execution_moves_to_another_server() -> None:
    first, second = executes("stmt", 2)
    moved = dataclasses.replace(second, statement_id=77, types=first.types)
    payload = moved.serialise(query_attributes=False)
    assert payload[1:5] == b"\x4d\x00\x00\x00"
    assert payload[5:] == first.serialise(query_attributes=False)[5:]
    # That server may count parameters where the client's does not.
    counted = moved.serialise(query_attributes=True)
    assert ComStmtExecute.parse(counted, 2, query_attributes=True).decode() == first.decode()


def test_an_execution_with_attributes() -> None:
    _, _, third = executes("stmt_query_attributes", 2)
    assert third.parameters == 3
    values = third.decode()
    assert values[1].value is None
    assert values[2] == QueryAttribute("tidegate.consistency", STRING, b"STRONG")
    assert ComStmtExecute.of(third.statement_id, values, flags=8) == third


def test_an_execution_of_connector_python() -> None:
    [execute] = executes("client_connector_python", 1)
    [value] = execute.decode()
    assert value.text == "1"


def test_an_execution_that_opens_a_cursor() -> None:
    [execute] = executes("stmt_cursor", 0)
    assert execute == ComStmtExecute(1, flags=1)
    assert execute.decode() == ()


def test_long_data_is_not_in_the_execution() -> None:
    [execute] = executes("stmt_long_data", 2)
    assert [value.text for value in execute.decode(long_data=frozenset({0}))] == ["-5"]
    with pytest.raises(MalformedPacketError):
        execute.decode()
    pieces = [
        ComStmtSendLongData.parse(payload)
        for payload in vectors.load("stmt_long_data").payloads("COM_STMT_SEND_LONG_DATA")
    ]
    assert b"".join(piece.data for piece in pieces) == b"long data"
    assert {piece.parameter for piece in pieces} == {0}


def test_attributes_alone_can_come_with_a_statement_without_parameters() -> None:
    execute = ComStmtExecute.of(5, [QueryAttribute("n", STRING, b"v")], flags=8)
    payload = execute.serialise(query_attributes=True)
    assert ComStmtExecute.parse(payload, 0, query_attributes=True) == execute
    none = ComStmtExecute(5, flags=8)
    payload = none.serialise(query_attributes=True)
    assert payload.endswith(b"\x00")
    assert ComStmtExecute.parse(payload, 0, query_attributes=True) == none


@pytest.mark.parametrize(
    ("rest", "parameters", "query_attributes"),
    [
        (b"", 1, False),
        (b"\x00", 1, False),
        (b"\x00\x01\x08", 1, False),
        (b"\x01\x00\x01\x08\x00\x00", 2, True),  # fewer values than parameters
        (b"\xfe" + b"\xff" * 8, 1, True),
        (b"\x01\x00\x01\x08\x00\x05n", 1, True),
    ],
)
def test_a_malformed_execution_is_refused(
    rest: bytes, parameters: int, query_attributes: bool
) -> None:
    payload = b"\x17\x01\x00\x00\x00\x00\x01\x00\x00\x00" + rest
    with pytest.raises(MalformedPacketError):
        ComStmtExecute.parse(payload, parameters, query_attributes)


def test_values_end_where_the_packet_ends() -> None:
    execute = ComStmtExecute(
        1, parameters=1, nulls=b"\0", types=(ParameterType(1 | UNSIGNED),), values=b"\xff"
    )
    [value] = execute.decode()
    assert value.text == "255"
    for values in (b"", b"\xff\xff"):
        with pytest.raises(MalformedPacketError):
            dataclasses.replace(execute, values=values).decode()


def test_a_change_of_user() -> None:
    vector = vectors.load("change_user")
    [payload] = vector.payloads("COM_CHANGE_USER")
    command = ComChangeUser.parse(payload, vector.capabilities)
    assert (command.username, command.database, command.character_set) == ("c", "t", 303)
    assert command.auth_plugin == "caching_sha2_password"
    assert command.attributes == {"program_name": "gate"}
    assert len(command.auth_response) == 32
    assert repr(command.auth_response) not in repr(command)


@pytest.mark.parametrize(
    ("rest", "character_set", "plugin"),
    [(b"", 0, None), (b"\x2d\x00", 45, None), (b"\x2d\x00p\0", 45, "p"), (b"\x2d\x00p", 45, "p")],
)
def test_a_change_of_user_can_end_early(
    rest: bytes, character_set: int, plugin: str | None
) -> None:
    payload = b"\x11tide\0\x03abct\0" + rest
    command = ComChangeUser.parse(payload, PLUGINS | Capability.CLIENT_CONNECT_ATTRS)
    assert command == ComChangeUser("tide", b"abc", "t", character_set, plugin, {})


def test_a_change_of_user_is_written_for_its_server() -> None:
    command = ComChangeUser("tide", b"abc", "", 45, "p", {"k": "v"})
    assert command.serialise(PLAIN) == b"\x11tide\0\x03abc\0\x2d\0"
    assert command.serialise(PLUGINS) == b"\x11tide\0\x03abc\0\x2d\0p\0"
    with_attributes = command.serialise(PLUGINS | Capability.CLIENT_CONNECT_ATTRS)
    assert with_attributes == b"\x11tide\0\x03abc\0\x2d\0p\0\x04\x01k\x01v"
    for changed in ({"username": "t\0"}, {"database": "t\0"}, {"auth_response": b"x" * 256}):
        with pytest.raises(MalformedPacketError):
            dataclasses.replace(command, **changed).serialise(PLUGINS)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("command", "payload"),
    [
        (ComInitDb("tide"), b"\x02tide"),
        (ComFieldList("t", "%"), b"\x04t\0%"),
        (ComSetOption(1), b"\x1b\x01\x00"),
        (ComStmtPrepare(b"DO ?"), b"\x16DO ?"),
        (ComStmtSendLongData(1, 2, b"x"), b"\x18\x01\0\0\0\x02\0x"),
        (ComStmtClose(258), b"\x19\x02\x01\0\0"),
        (ComStmtReset(1), b"\x1a\x01\0\0\0"),
        (ComStmtFetch(1, 2**32 - 1), b"\x1c\x01\0\0\0\xff\xff\xff\xff"),
    ],
)
def test_small_commands(
    command: ComInitDb
    | ComFieldList
    | ComSetOption
    | ComStmtPrepare
    | ComStmtSendLongData
    | ComStmtClose
    | ComStmtReset
    | ComStmtFetch,
    payload: bytes,
) -> None:
    assert command.serialise() == payload
    assert type(command).parse(payload) == command
    with pytest.raises(MalformedPacketError):
        type(command).parse(b"\x0e" + payload[1:])
    with pytest.raises(MalformedPacketError):
        type(command).parse(b"")
