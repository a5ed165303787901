"""Everything that decodes bytes of a peer, by name; a new decoder adds itself here."""

from collections.abc import Callable

from protocol.command import ComStmtExecute, query_text_offset
from protocol.compression import Algorithm, Compression
from protocol.constants import Capability
from protocol.resultset import parse_text_row
from protocol.session_track import decode, entries
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
    "session state": lambda block: [decode(kind, entity) for kind, entity in entries(block)],
}
