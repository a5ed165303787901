"""Executions as they must be changed for another server, against the parser of whole packets."""

from hypothesis import given
from hypothesis import strategies as st

from protocol.constants import FieldType
from protocol.packet import frame
from protocol.parameter import QueryAttribute
from protocol.prepared_statement import PARAMETER_COUNT_AVAILABLE, ComStmtExecute
from protocol.statement_execution import (
    bound_types,
    statement_id,
    with_statement_id,
    with_types,
)

VALUES = st.lists(
    st.builds(
        QueryAttribute,
        st.sampled_from(["", "", "trace", "tidegate.consistency"]),
        st.just(int(FieldType.MYSQL_TYPE_STRING)),
        st.none() | st.binary(max_size=30),
    ),
    max_size=300,
)


@given(VALUES, st.booleans())
def test_types_left_out_are_put_in_again(values: list[QueryAttribute], named: bool) -> None:
    flags = PARAMETER_COUNT_AVAILABLE if named else 0
    whole = ComStmtExecute.of(7, values, flags)
    packet = frame(whole.serialise(named), 0)
    parsed = ComStmtExecute.parse(packet[4:], len(values), named)
    bare = ComStmtExecute(7, flags, parsed.parameters, parsed.nulls, None, parsed.values)
    without = frame(bare.serialise(named), 0)
    found = bound_types(packet, len(values), named)
    left_out = bound_types(without, len(values), named)
    if not values:
        assert found is None
        assert left_out is None
        return
    assert found is not None
    assert left_out is not None
    assert found.values == left_out.values == len(values)
    assert left_out.types == b""
    assert with_types(without, left_out, found.types) == packet


@given(VALUES, st.booleans(), st.data())
def test_what_is_cut_off_is_left_alone(
    values: list[QueryAttribute], named: bool, data: st.DataObject
) -> None:
    packet = frame(ComStmtExecute.of(7, values).serialise(named), 0)
    end = data.draw(st.integers(0, len(packet)))
    found = bound_types(packet[:end], len(values), named)
    if found is not None:
        assert found == bound_types(packet, len(values), named)


@given(st.binary(max_size=60), st.integers(0, 70000), st.booleans())
def test_no_bytes_break_it(packet: bytes, parameters: int, named: bool) -> None:
    bound_types(packet, parameters, named)
    statement_id(packet)


@given(st.integers(0, 0xFFFFFFFF), st.integers(0, 0xFFFFFFFF))
def test_ids(old: int, new: int) -> None:
    packet = frame(ComStmtExecute(old).serialise(False), 0)
    assert statement_id(packet) == old
    changed = with_statement_id(packet, new)
    assert changed == frame(ComStmtExecute(new).serialise(False), 0)
    assert statement_id(changed) == new


def test_a_frame_never_grows_beyond_its_limit() -> None:
    packet = b"\xfe\xff\xff\x00" + b"\x17\x01\0\0\0\0\x01\0\0\0" + b"\0\0" + bytes(8)
    left_out = bound_types(packet, 1, False)
    assert left_out is not None
    assert with_types(packet, left_out, b"\x08\x00") == packet
