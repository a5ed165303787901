"""Bytes that a real server and real clients exchanged, from the files in tests/vectors.

A file is a transcript::

    # What was done, in free text.
    server MySQL 9.7.4
    capabilities 0x01aaa28d         what both sides had agreed on; 0 before that

    > COM_QUERY                     a packet from the client, and what it is
      05 00 00 00  # header         lines that start with blanks are its bytes
      03 44 4f 20 31                # a comment ends a line
    < OkPacket                      a packet from the server
      07 00 00 01 00 00 00 02 00 00 00
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from protocol.constants import Capability

DIRECTORY = Path(__file__).parent.parent / "vectors"


@dataclass(frozen=True)
class Packet:
    """One packet; `data` is the whole of it, `payload` what follows its header."""

    from_server: bool
    kind: str
    data: bytes

    @property
    def sequence_id(self) -> int:
        return self.data[3]

    @property
    def payload(self) -> bytes:
        return self.data[4:]


@dataclass(frozen=True)
class Vector:
    """A transcript."""

    name: str
    server: str
    capabilities: Capability
    packets: tuple[Packet, ...]

    def payloads(self, kind: str) -> list[bytes]:
        """Payloads of the packets of one kind."""
        return [packet.payload for packet in self.packets if packet.kind == kind]


def parse(name: str, text: str) -> Vector:
    """Read a file's content."""
    settings = {"server": "", "capabilities": "0"}
    heads: list[tuple[bool, str]] = []
    digits: list[str] = []
    for line in text.splitlines():
        content = line.partition("#")[0].rstrip()
        if not content:
            continue
        if content[0] in "<>":
            heads.append((content[0] == "<", content[1:].strip()))
            digits.append("")
        elif content[0].isspace():
            digits[-1] += content
        else:
            key, _, value = content.partition(" ")
            if key not in settings:
                raise ValueError(f"{name}: a line starts with {key!r}")
            settings[key] = value
    packets = [
        Packet(from_server, kind, bytes.fromhex(data))
        for (from_server, kind), data in zip(heads, digits, strict=True)
    ]
    if any(len(p.payload) != int.from_bytes(p.data[:3], "little") for p in packets):
        raise ValueError(f"{name}: a packet's length is not what its header says")
    capabilities = Capability(int(settings["capabilities"], 16))
    return Vector(name, settings["server"], capabilities, tuple(packets))


@cache
def load(name: str) -> Vector:
    """The vector in the file `name`.hex."""
    return parse(name, (DIRECTORY / f"{name}.hex").read_text())


def names(prefix: str = "") -> list[str]:
    """All vectors, or those whose name starts so."""
    return sorted(path.stem for path in DIRECTORY.glob(f"{prefix}*.hex"))
