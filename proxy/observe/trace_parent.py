"""The trace to which a statement belongs: its `traceparent` (W3C Trace Context).

A client names it in a query attribute of that name, as MySQL's own component of telemetry reads it,
or in a comment of sqlcommenter's form at the end of the text, or at its beginning:
``/*traceparent='00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',db_driver='x'*/``, where
keys and values are URL-encoded (https://google.github.io/sqlcommenter/spec/).

A `traceparent` that is no valid one counts as none, as the recommendation demands
(https://www.w3.org/TR/trace-context/#traceparent-header).
"""

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote_to_bytes

from protocol.command import ComQuery, query_text_offset
from protocol.errors import MalformedPacketError
from routing.request.command import Command

_REACH: Final = 2048
"""Bytes of a text, from its beginning and from its end, in which a comment is looked for."""
_ATTRIBUTES: Final = 4096
"""Bytes of a packet in which the name of the attribute is looked for."""
_LONGEST: Final = 512
"""Bytes of a `traceparent`, and of a `tracestate`, that are looked at; 512 is the least that the
recommendation demands of the latter."""

_NAME: Final = b"traceparent"
_AT_END: Final = re.compile(rb"/\*((?:[^*]|\*(?!/))*)\*/[\s;]*\Z")
_AT_BEGIN: Final = re.compile(rb"[\s;]*/\*((?:[^*]|\*(?!/))*)\*/")
_PAIR: Final = re.compile(rb"(?:\A|,)\s*([\w.%+-]+)\s*=\s*'([^'\\]*)'")

Carrier = dict[str, str]
"""What OpenTelemetry's propagator reads: `traceparent`, and `tracestate` if there is one."""


def trace_parent(command: Command, *, query_attributes: bool) -> Carrier:
    """The parent that a command names; empty if none.

    Args:
        command: it.
        query_attributes: its client's statements begin with attributes.
    """
    if command.is_query and query_attributes and _NAME in command.packet[:_ATTRIBUTES]:
        carrier = _in_attributes(command.packet[4:])
        if carrier:
            return carrier
    return in_comments(statement_text(command, query_attributes=query_attributes))


def statement_text(command: Command, *, query_attributes: bool) -> bytes:
    """The text of the statement that a command is about; empty if it is not known."""
    if command.is_query:
        if not command.packet:
            return b""
        try:
            return command.packet[4 + query_text_offset(command.packet[4:], query_attributes) :]
        except MalformedPacketError:
            return b""
    return command.packet[5:] if command.prepares is not None else command.text


def _in_attributes(payload: bytes) -> Carrier:
    try:
        attributes = ComQuery.parse(payload, query_attributes=True).attributes
    except MalformedPacketError:
        return {}
    named = {attribute.name.lower(): attribute.text or "" for attribute in attributes}
    return _carrier(named)


def in_comments(text: bytes) -> Carrier:
    """The parent in the comment that ends a text, or else in the one that begins it."""
    end = text[-_REACH:]
    if _NAME in end:
        start = end.rfind(b"/*")
        comment = _AT_END.match(end, start) if start >= 0 else None
        if comment is not None and (carrier := _carrier(dict(_pairs(comment[1])))):
            return carrier
    begin = text[:_REACH]
    if _NAME in begin and (comment := _AT_BEGIN.match(begin)):
        return _carrier(dict(_pairs(comment[1])))
    return {}


def _pairs(comment: bytes) -> Iterator[tuple[str, str]]:
    for pair in _PAIR.finditer(comment):
        key, value = map(unquote_to_bytes, pair.groups())
        yield key.decode("latin-1"), value.decode("latin-1")


def _carrier(named: dict[str, str]) -> Carrier:
    return {
        key: named[key]
        for key in ("traceparent", "tracestate")
        if key in named and len(named[key]) <= _LONGEST
    }
