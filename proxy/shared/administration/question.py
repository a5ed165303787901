"""What a worker is asked about itself, by another worker or by the metrics server, and its answer.

Both are JSON, in a frame of four bytes for the length (big-endian) and so many bytes. One
connection carries one question and its answer. Lengths are limited on both sides.
"""

from __future__ import annotations

import json
import struct
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast, get_args

from protocol.errors import MalformedPacketError

if TYPE_CHECKING:
    from collections.abc import Sequence

Subject: TypeAlias = Literal["sessions", "servers", "digests", "drain", "undrain", "reload", "kill"]
Cell: TypeAlias = str | int | float | bool | None
Row: TypeAlias = "list[Cell]"

OF_ONE: Final[tuple[Subject, ...]] = ("reload",)
"""What one worker is asked, since it does it for all."""

_WITHIN_S: Final = 2.0
_RELOAD_WITHIN_S: Final = 60.0

LENGTH: Final = struct.Struct(">I")
MOST_ASKED: Final = 4096
"""The longest question, bytes: names of users and servers are far shorter."""
MOST_ANSWERED: Final = 1 << 20
"""The longest answer, bytes; rows that have no room are left out, and counted."""
MOST_TOGETHER: Final = 4 << 20
"""The longest that the answers of all workers may be together, bytes."""
_BESIDES: Final = 4096
"""What an answer holds besides its rows, at most."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a worker is to show or to do.

    Attributes:
        subject: what it is about.
        user: of sessions: only this user's; None: everybody's.
        server: the server that is to be drained or undrained, ``host:port``.
        connection_id: of a kill: the id that the session's client was told.
        room: how long the answer may be, bytes.
    """

    subject: Subject
    user: str | None = None
    server: str = ""
    connection_id: int = 0
    room: int = MOST_ANSWERED

    @property
    def within(self) -> float:
        """How long a worker may take to answer, s: a reload waits for all workers."""
        return _RELOAD_WITHIN_S if self.subject == "reload" else _WITHIN_S

    def serialise(self) -> bytes:
        """The question's bytes, with their length in front.

        Raises:
            ValueError: it is too long.
        """
        data = json.dumps(asdict(self)).encode()
        if len(data) > MOST_ASKED:
            raise ValueError(f"a question of {len(data)} bytes")
        return LENGTH.pack(len(data)) + data

    @classmethod
    def parse(cls, data: bytes) -> Question:
        """Read a question from the bytes after the length.

        Raises:
            MalformedPacketError: they are none.
        """
        found = _object(data)
        subject, user = found.get("subject"), found.get("user")
        server, connection_id = found.get("server", ""), found.get("connection_id", 0)
        room = found.get("room")
        if (
            subject not in get_args(Subject)
            or not isinstance(user, str | None)
            or not isinstance(server, str)
            or not isinstance(connection_id, int)
            or not isinstance(room, int)
        ):
            raise MalformedPacketError("a question that a worker does not know")
        return cls(cast("Subject", subject), user, server, connection_id, min(room, MOST_ANSWERED))


@dataclass(frozen=True, slots=True)
class Answer:
    """What a worker shows.

    Attributes:
        rows: with the columns of the subject.
        left_out: how many more there are.
        refusal: why nothing was done; empty if it was.
    """

    rows: Sequence[Row] = ()
    left_out: int = 0
    refusal: str = ""

    def serialise(self, room: int) -> bytes:
        """The answer's bytes, with their length in front; rows that have no room are left out."""
        room = min(max(room, 2 * _BESIDES), MOST_ANSWERED) - _BESIDES
        texts: list[str] = []
        for row in self.rows:
            text = json.dumps(row)
            room -= len(text) + 1
            if room < 0:
                break
            texts.append(text)
        left_out = self.left_out + len(self.rows) - len(texts)
        refusal = json.dumps(self.refusal[: _BESIDES // 8])
        data = f'{{"rows":[{",".join(texts)}],"left_out":{left_out},"refusal":{refusal}}}'.encode()
        return LENGTH.pack(len(data)) + data

    @classmethod
    def parse(cls, data: bytes) -> Answer:
        """Read an answer from the bytes after the length.

        Raises:
            MalformedPacketError: they are none.
        """
        found = _object(data)
        rows, left_out, refusal = found.get("rows"), found.get("left_out"), found.get("refusal")
        if (
            not isinstance(rows, list)
            or not all(isinstance(row, list) for row in rows)
            or not isinstance(left_out, int)
            or not isinstance(refusal, str)
        ):
            raise MalformedPacketError("a worker's answer that makes no sense")
        return cls(rows, left_out, refusal)


def parse_length(data: bytes, most: int) -> int:
    """The length of what follows, bytes.

    Raises:
        MalformedPacketError: it is longer than `most`.
    """
    length = int(LENGTH.unpack(data)[0])
    if length > most:
        raise MalformedPacketError(f"a frame of {length} bytes, of at most {most}")
    return length


def _object(data: bytes) -> dict[str, object]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise MalformedPacketError(f"a frame of {len(data)} bytes is not JSON") from error
    if not isinstance(found, dict):
        raise MalformedPacketError("a frame that holds no object")
    return found
