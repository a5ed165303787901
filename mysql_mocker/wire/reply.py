"""Results as packets."""

from collections.abc import Callable, Sequence
from typing import Final

from mysql_mocker.error import MySQLError
from mysql_mocker.sql.result import Done, Result, Rows
from mysql_mocker.sql.value import Row, to_text
from mysql_mocker.state.session import Session
from mysql_mocker.wire.channel import Channel
from protocol.constants import Capability, ServerStatus
from protocol.response import EOF_HEADER, OK_HEADER, EofPacket, ErrPacket, OkPacket
from protocol.resultset import ColumnCount, ColumnDefinition41, text_row

EncodeRow = Callable[[Sequence[ColumnDefinition41], Row], bytes]

_ROWS_PER_FLUSH: Final = 500


def text(_columns: Sequence[ColumnDefinition41], row: Row) -> bytes:
    """A row of the text protocol."""
    return text_row([to_text(value) for value in row])


class Reply:
    """Writes the answers to one client's commands.

    Args:
        capabilities: what both sides can do.
    """

    def __init__(self, channel: Channel, session: Session, capabilities: Capability) -> None:
        self.session = session
        self._channel = channel
        self._capabilities = capabilities

    @property
    def deprecates_eof(self) -> bool:
        """CLIENT_DEPRECATE_EOF."""
        return bool(self._capabilities & Capability.CLIENT_DEPRECATE_EOF)

    def _status(self, *, more: bool) -> int:
        session = self.session
        status = ServerStatus(0)
        if session.variables["autocommit"]:
            status |= ServerStatus.SERVER_STATUS_AUTOCOMMIT
        if session.transaction.active:
            status |= ServerStatus.SERVER_STATUS_IN_TRANS
            if session.transaction.read_only:
                status |= ServerStatus.SERVER_STATUS_IN_TRANS_READONLY
        if "NO_BACKSLASH_ESCAPES" in str(session.variables["sql_mode"]):
            status |= ServerStatus.SERVER_STATUS_NO_BACKSLASH_ESCAPES
        if more:
            status |= ServerStatus.SERVER_MORE_RESULTS_EXISTS
        return int(status)

    def _warnings(self) -> int:
        return min(self.session.warning_count, 0xFFFF)

    def ok(self, done: Done | None = None, *, header: int = OK_HEADER, more: bool = False) -> None:
        """Adds an OK packet, with what the trackers report."""
        result = done or Done()
        if header == OK_HEADER:
            self.session.row_count = result.affected_rows
        block = None
        if self._capabilities & Capability.CLIENT_SESSION_TRACK:
            block = self.session.trackers.block(self.session.schema)
        status = self._status(more=more)
        if result.dropped_schema:
            status |= ServerStatus.SERVER_STATUS_DB_DROPPED
        packet = OkPacket(
            affected_rows=result.affected_rows,
            last_insert_id=result.last_insert_id,
            status=status,
            warnings=self._warnings(),
            info=result.info.encode(),
            session_state=block,
            header=header,
        )
        self._channel.add(packet.serialise(self._capabilities))

    def end_of_rows(self, *, more: bool = False) -> None:
        """Adds the packet that ends rows, and that answers COM_SET_OPTION and similar commands."""
        self.session.row_count = -1
        if self.deprecates_eof:
            self.ok(header=EOF_HEADER, more=more)
        else:
            self._eof(more=more)

    def _eof(self, *, more: bool) -> None:
        self._channel.add(EofPacket(self._warnings(), self._status(more=more)).serialise())

    def error(self, error: MySQLError) -> None:
        """Adds an ERR packet."""
        packet = ErrPacket(error.code, error.sqlstate, error.message)
        self._channel.add(packet.serialise(self._capabilities))

    @property
    def metadata(self) -> bool:
        """Whether the client gets column definitions (fact 7.6)."""
        return self.session.variables["resultset_metadata"] != "NONE" or not (
            self._capabilities & Capability.CLIENT_OPTIONAL_RESULTSET_METADATA
        )

    def definitions(self, columns: Sequence[ColumnDefinition41], *, more: bool = False) -> None:
        """Adds column definitions, and the EOF that older clients expect, also without them."""
        if self.metadata:
            for column in columns:
                self._channel.add(column.serialise())
        if columns and not self.deprecates_eof:
            self._eof(more=more)

    async def result(self, result: Result, more: bool, encode: EncodeRow = text) -> None:
        """Sends one result of a statement.

        Raises:
            ConnectionGoneError: the client left.
        """
        if isinstance(result, Done):
            self.ok(result, more=more)
        else:
            await self._rows(result, encode, more=more)
        await self._channel.flush()

    async def _rows(self, rows: Rows, encode: EncodeRow, *, more: bool) -> None:
        count = ColumnCount(len(rows.columns), self.metadata)
        self._channel.add(count.serialise(self._capabilities))
        self.definitions(rows.columns, more=more)
        for number, row in enumerate(rows.rows, 1):
            self._channel.add(encode(rows.columns, row))
            if number % _ROWS_PER_FLUSH == 0:
                await self._channel.flush()
        if rows.error is not None:
            self.error(rows.error)
        else:
            self.end_of_rows(more=more)
