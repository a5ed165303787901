"""The statements that a client prepared, and which of its servers know them by what id.

Theory of operation
===================

The client is given an id of the proxy's own. A statement is prepared where its PREPARE was routed,
and on any other server when it first runs there: the PREPARE is written, its answer has the id, and
the client's command follows. So a read's text is kept; all other statements exist on the primary
alone, and their texts are not needed.

A server reads the text under the schema, sql_mode and character set that the session had then.
The schema is selected again for the PREPARE. Where sql_mode or the character set has changed since,
the statement runs where it was prepared before, or else on the primary, where it is prepared before
they change.

What COM_STMT_SEND_LONG_DATA brings for a read is kept until the read has run, since nobody knows
yet where that will be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.constants import Command as Code
from protocol.statement_execution import statement_id
from proxy.client.statements.prepared_statement import close_packet
from routing.session.prepared import LongDataSize

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from proxy.server.connection import ServerConnection
    from proxy.server.mirror import Mirror
    from routing.session.prepared import PreparedStatement

_LAST_ROW_SENT: Final = 0x0080

LONG_PART: Final = 256
"""Bytes that a part of long data takes besides its own: a client may send many small ones."""


class PreparedStatements:
    """Those of one session, by their ids.

    Attributes:
        text_size: bytes of the texts that are kept.
    """

    def __init__(self) -> None:
        self._statements: dict[int, PreparedStatement] = {}
        self._cursors: dict[int, ServerConnection] = {}
        self._last = 0
        self._size = 0
        self._long_size = LongDataSize()
        self.text_size = 0

    def __len__(self) -> int:
        return len(self._statements)

    @property
    def long_size(self) -> int:
        """Bytes of long data that are kept."""
        return self._long_size.size

    @property
    def size(self) -> int:
        """Bytes that all of them take, an estimate."""
        return self._size + self._long_size.size + LONG_PART * self._long_size.parts

    def count(self, prepared: PreparedStatement) -> None:
        """Count how much it takes now: its types may have changed."""
        self._size -= prepared.counted
        prepared.counted = prepared.size
        self._size += prepared.counted

    @property
    def cursors(self) -> int:
        """How many cursors are open."""
        return len(self._cursors)

    def number(self) -> int:
        """A new id; as on a server, it is used up even if the PREPARE fails."""
        self._last = self._last % 0xFFFFFFFF + 1
        return self._last

    def reserve(self, most: int) -> None:
        """The ids up to this one are the primary's, of statements that are not known here."""
        self._last = max(self._last, most)

    def add(self, prepared: PreparedStatement) -> None:
        """Its PREPARE succeeded."""
        self._statements[prepared.number] = prepared
        prepared.long_size = self._long_size
        self.text_size += len(prepared.sql)
        self.count(prepared)

    def of(self, packet: bytes) -> PreparedStatement | None:
        """The one that a framed command is about, or None."""
        return self._statements.get(statement_id(packet))

    def get(self, number: int) -> PreparedStatement | None:
        """The one with this id, or None."""
        return self._statements.get(number)

    def close(self, prepared: PreparedStatement) -> None:
        """Forget it."""
        del self._statements[prepared.number]
        self.text_size -= len(prepared.sql)
        self._size -= prepared.counted
        prepared.forget_long_data()
        self._cursors.pop(prepared.number, None)

    def clear(self) -> None:
        """The session was reset; ids go on."""
        self._statements.clear()
        self._long_size = LongDataSize()
        self.text_size = self._size = 0
        self._cursors.clear()

    def cursor(self, prepared: PreparedStatement) -> ServerConnection | None:
        """Where its cursor is open, or None."""
        return self._cursors.get(prepared.number)

    def has_cursor_on(self, connection: ServerConnection) -> bool:
        """Whether rows of a cursor there are still to be fetched."""
        return any(holder is connection for holder in self._cursors.values())

    def holder(
        self, prepared: PreparedStatement, connections: Iterable[ServerConnection]
    ) -> ServerConnection | None:
        """A server that knows the statement: where its cursor is open, if it has one."""
        cursor = self._cursors.get(prepared.number)
        if cursor is not None:
            return cursor
        for connection in connections:
            if prepared.number in connection.mirror.statements and not connection.busy:
                return connection
        return None

    def close_cursor(self, prepared: PreparedStatement) -> None:
        """Its cursor is gone."""
        self._cursors.pop(prepared.number, None)

    def on_answer(
        self, prepared: PreparedStatement, code: Code, connection: ServerConnection
    ) -> None:
        """A server answered a command about it."""
        stream = connection.stream
        if code is Code.COM_STMT_EXECUTE:
            prepared.use_long_data()
            before = self._cursors.pop(prepared.number, None)
            if before is not None and before is not connection:
                close_on(before, prepared)
            if stream.cursor:
                self._cursors[prepared.number] = connection
        elif (
            code is Code.COM_STMT_RESET
            or stream.error is not None
            or stream.status & _LAST_ROW_SENT
        ):
            self._cursors.pop(prepared.number, None)

    def __iter__(self) -> Iterator[PreparedStatement]:
        """All of them."""
        return iter(self._statements.values())

    def missing_on(self, mirror: Mirror) -> list[PreparedStatement]:
        """The statements that may run elsewhere, unknown to the server of this connection."""
        return [
            prepared
            for prepared in self._statements.values()
            if prepared.moves and prepared.number not in mirror.statements
        ]


def close_on(connection: ServerConnection, prepared: PreparedStatement) -> None:
    """Let a server forget the statement, and its cursor; there is no answer."""
    handle = connection.mirror.statements.pop(prepared.number, None)
    if handle is not None and not connection.lost:
        connection.write(close_packet(handle))
