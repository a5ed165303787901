"""Everything that decodes bytes of a peer, by name; a new decoder adds itself here."""

from collections.abc import Callable
from functools import partial

from protocol.binlog.decode import decode as decode_event
from protocol.binlog.dump_request import DumpRequest
from protocol.binlog.event import Event, EventType, Header
from protocol.binlog.log_reader import LogReader
from protocol.binlog.transaction_payload import TransactionPayload
from protocol.command import ComStmtExecute, query_text_offset
from protocol.compression import Algorithm, Compression
from protocol.constants import Capability
from protocol.gtid import EMPTY
from protocol.resultset import parse_text_row
from protocol.session_track import decode, entries
from routing.servers.transaction_log import TransactionLog
from routing.servers.transaction_tables import TransactionTables
from tests.support.codecs import CODECS

Decoder = Callable[[bytes], object]

CAPABILITIES = (
    Capability.CLIENT_PROTOCOL_41,
    Capability.CLIENT_PROTOCOL_41 | Capability.CLIENT_PLUGIN_AUTH,
    Capability(0xFFFFFFFF),
)


def _bound(parse: Callable[[bytes, Capability], object], capabilities: Capability) -> Decoder:
    return lambda payload: parse(payload, capabilities)


def _execute(payload: bytes, query_attributes: bool) -> object:
    return ComStmtExecute.parse(payload, 2, query_attributes).decode(long_data=frozenset({1}))


def _decompress(data: bytes, algorithm: Algorithm, server: bool) -> object:
    side = Compression(algorithm, 3, server=server)
    side.receive_data(data)
    return list(iter(side.next_plain, None))


def _log(data: bytes) -> object:
    reader = LogReader()
    reader.receive_data(data)
    events = [(event, decode_event(event)) for event in iter(reader.next_event, None)]
    reader.finish()
    return events


def _stream(answer: bytes) -> object:
    tables = TransactionTables(1 << 20)
    log = TransactionLog(tables, 1, EMPTY, 0)
    log.receive_data(answer)
    return tables.read_through


def _event(kind: EventType, body: bytes) -> object:
    decoded = decode_event(Event(4, Header(0, kind, 1, 19 + len(body), 0, 0), body))
    if isinstance(decoded, TransactionPayload):
        return decoded.events(4)
    return decoded


DECODERS: dict[str, Decoder] = {
    f"{kind} {capabilities:08x}": _bound(codec.parse, capabilities)
    for kind, codec in CODECS.items()
    for capabilities in CAPABILITIES
} | {
    "compressed by a client, zlib": lambda data: _decompress(data, Algorithm.ZLIB, True),
    "compressed by a client, zstd": lambda data: _decompress(data, Algorithm.ZSTD, True),
    "compressed by a server, zlib": lambda data: _decompress(data, Algorithm.ZLIB, False),
    "compressed by a server, zstd": lambda data: _decompress(data, Algorithm.ZSTD, False),
    "query text": lambda payload: query_text_offset(payload, query_attributes=True),
    "execution": lambda payload: _execute(payload, query_attributes=False),
    "execution with attributes": lambda payload: _execute(payload, query_attributes=True),
    "text row": lambda payload: parse_text_row(payload, 3),
    "binary log": _log,
    "answer to a dump request": _stream,
    "dump request": DumpRequest.parse,
    "session state": lambda block: [decode(kind, entity) for kind, entity in entries(block)],
}

EVENT_DECODERS: dict[str, Decoder] = {kind.name: partial(_event, kind) for kind in EventType}
