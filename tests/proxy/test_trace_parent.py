"""Which trace a statement belongs to, in every form, and in hostile ones."""

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.trace import get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from protocol.command import ComQuery
from protocol.constants import Command as Code
from protocol.constants import FieldType
from protocol.packet import frame
from protocol.parameter import QueryAttribute
from proxy.observe.trace_parent import in_comments, statement_text, trace_parent
from routing.consistency.decision import Level, Scope, TimeoutPolicy
from routing.consistency.rules import Rules
from routing.request.command import Command

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
RULES = Rules(Level.STRONG, Scope.CONNECTION, 0.25, TimeoutPolicy.PRIMARY)


def attribute(name: str, text: str) -> QueryAttribute:
    return QueryAttribute(name, int(FieldType.MYSQL_TYPE_VAR_STRING), text.encode())


def query(sql: str, *attributes: QueryAttribute, capable: bool = True) -> Command:
    payload = ComQuery(sql.encode(), attributes).serialise(capable)
    return Command(Code.COM_QUERY, RULES, frame(payload, 0))


def trace_id(carrier: dict[str, str]) -> str:
    """The id of the trace that OpenTelemetry follows; empty if it follows none."""
    span = get_current_span(TraceContextTextMapPropagator().extract(carrier)).get_span_context()
    return f"{span.trace_id:032x}" if span.is_valid else ""


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT 1 /*traceparent='{PARENT}'*/",
        f"SELECT 1 /*traceparent='{PARENT}'*/ ; ",
        f"/*traceparent='{PARENT}'*/ SELECT 1",
        f"/*traceparent='{PARENT}'*/ SELECT /*+ NO_MERGE() */ 1 /* a comment */",
        f"SELECT '/*' /*action='%2Fpolls',traceparent='{PARENT}',tracestate='a%3D1'*/",
        f"SELECT 1 /*traceparent='{quote(PARENT, safe='')}',z='it%27s'*/",
        f"SELECT 1 /*traceparent='{PARENT.replace('-', '%2D')}'*/",
        f"SELECT 1 /* x */ /* y */ /*traceparent='{PARENT}'*/",
        f"SELECT 1 -- /*traceparent='{PARENT}'*/",
    ],
)
@pytest.mark.parametrize("capable", [False, True])
def test_a_comment_names_the_parent(sql: str, capable: bool) -> None:
    carrier = trace_parent(query(sql, capable=capable), query_attributes=capable)
    assert carrier["traceparent"] == PARENT
    assert trace_id(carrier) == TRACE


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT '/*traceparent=''{PARENT}''*/'",
        f"SELECT \"/*traceparent='{PARENT}'*/\"",
        f"SELECT \"/*traceparent='{PARENT}'*/\" AS a",
        f"DO 1 /*traceparent='{PARENT}'*/ + 1",
        f"SELECT 1 /*traceparent={PARENT}*/",
        f"SELECT 1 /*traceparent='{PARENT}'",
        f"SELECT 1 /*xtraceparent='{PARENT}'*/",
        f"SELECT 1 /*traceparent='{PARENT}'*/" + " " * 4096,
        "SELECT 1 /*traceparent=''*/",
        "SELECT 1 " + "/*" * 1500 + f"traceparent='{PARENT}'",
        "SELECT 1" + " /**/" * 500 + "/*traceparent*/",
        "traceparent",
        "",
    ],
)
def test_what_is_no_comment_of_the_statement_names_none(sql: str) -> None:
    assert trace_id(in_comments(sql.encode())) == ""


@pytest.mark.parametrize(
    "value",
    [
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-01-",
        f"00-{TRACE}-{SPAN}-01-more",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE[:-1]}g-{SPAN}-01",
        f"00-{TRACE}0-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-zz",
        "0" * 100_000,
        "%",
        "00-%00%00-1-01",
        "\x00",
        "é" * 55,
    ],
)
def test_a_hostile_parent_is_none(value: str) -> None:
    assert trace_id(in_comments(f"SELECT 1 /*traceparent='{value}'*/".encode())) == ""
    command = query("SELECT 1", attribute("traceparent", value))
    assert trace_id(trace_parent(command, query_attributes=True)) == ""


def test_an_attribute_counts_before_a_comment() -> None:
    other = f"00-{'1' * 32}-{SPAN}-01"
    sql = f"SELECT 1 /*traceparent='{other}'*/"
    state = attribute("tracestate", "vendor=1")
    command = query(sql, attribute("traceparent", PARENT), state)
    assert trace_parent(command, query_attributes=True) == {
        "traceparent": PARENT,
        "tracestate": "vendor=1",
    }
    assert statement_text(command, query_attributes=True) == sql.encode()


@given(st.binary(max_size=200), st.binary(max_size=60), st.booleans())
def test_no_bytes_are_an_error(text: bytes, comment: bytes, capable: bool) -> None:
    for sql in (text + b"/*traceparent='" + comment, b"/*traceparent='" + comment + b"'*/" + text):
        packet = frame(b"\x03" + sql, 0)
        command = Command(Code.COM_QUERY, RULES, packet)
        trace_id(trace_parent(command, query_attributes=capable))
        trace_id(in_comments(sql))
