"""What a command asks of its session's diagnostics area, and what it leaves there.

(`routing.session.diagnostics_area`)
"""

from typing import Final

from protocol.constants import Command as Code
from protocol.response_stream import RESULTS
from routing.request.command import Command
from routing.request.outcome import CommandOutcome
from routing.session.diagnostics_area import (
    KEEPING_CONDITIONS,
    NOT_KNOWN,
    ConnectionArea,
    DiagnosticsArea,
)
from routing.sql.diagnostics import (
    CONDITIONS,
    COUNTS_ROWS,
    FOUND_AS_SHOWN,
    FOUND_ROWS,
    MAY_COUNT_ROWS,
    MAY_FIND_ROWS,
    ROW_COUNT,
    TAKES_COUNT,
    UNKNOWN,
)
from routing.sql.statement import StatementClass

_OF_PREPARED: Final = (Code.COM_STMT_EXECUTE, Code.COM_STMT_FETCH, Code.COM_STMT_RESET)
_UNKNOWN: Final = Code.COM_SLEEP
"""What goes to the primary in place of what it does not know, or cannot read, and always fails."""
_ADDING: Final = (
    *(Code.COM_INIT_DB, Code.COM_SET_OPTION, Code.COM_DEBUG, Code.COM_FIELD_LIST, _UNKNOWN),
)
"""Commands that may fail, and then add an error to the conditions that there are."""
_COUNTING: Final = FOUND_ROWS | MAY_FIND_ROWS | COUNTS_ROWS | MAY_COUNT_ROWS
"""What a statement leaves that may have run a query before it failed."""
_READ: Final = StatementClass.READ
_DIAGNOSTIC: Final = StatementClass.DIAGNOSTIC


def parts_asked(command: Command) -> int:
    """The parts that a statement asks about."""
    statement = command.statement
    return 0 if statement is None or command.shape != RESULTS else statement.asks


def parts_required(command: Command, *, has_count: bool = False) -> int:
    """The parts that must be true where a command runs.

    It asks about them; or it may add to the conditions; or its text does not show whether it keeps
    the others.

    `has_count`: rows were counted there that FOUND_ROWS() does not show yet.
    """
    if command.code in _ADDING or _is_about_nothing(command):
        return CONDITIONS
    asked = parts_asked(command)
    left = _leaves(command)
    if left & MAY_FIND_ROWS and not (has_count and left & TAKES_COUNT):
        # A write's ROW_COUNT() cannot stay beside a FOUND_ROWS() that is brought there: what it
        # asks for is more certain than what it may keep.
        return asked | FOUND_ROWS | (0 if asked & FOUND_ROWS else ROW_COUNT)
    if left & MAY_COUNT_ROWS and not has_count:
        return asked | FOUND_ROWS
    return asked | (ROW_COUNT if left & MAY_FIND_ROWS and not asked & FOUND_ROWS else 0)


def parts_required_of_replica(command: Command) -> int:
    """The parts that must be true where a read runs, or a question that does nothing else."""
    if command.is_read:  # perhaps an EXPLAIN, of which subqueries may set FOUND_ROWS()
        return FOUND_ROWS if _leaves(command) & MAY_COUNT_ROWS else 0
    return parts_asked(command)


def needs_count(diagnostics: DiagnosticsArea, area: ConnectionArea, command: Command) -> bool:
    """Whether FOUND_ROWS() may be shown by it, or later, of what only a server has counted.

    A question of the proxy's own in front of it would be counted in place of that.
    """
    left = _leaves(command)
    if diagnostics.has_count(area):
        return left & (TAKES_COUNT | MAY_COUNT_ROWS) != 0
    unknown = diagnostics.found_rows == NOT_KNOWN and diagnostics.is_at(area, FOUND_ROWS)
    return unknown and left & MAY_COUNT_ROWS != 0


def is_lost(diagnostics: DiagnosticsArea, area: ConnectionArea, command: Command) -> bool:
    """Whether FOUND_ROWS() must be asked for before statements of the proxy's own there."""
    return diagnostics.is_lost(area, _leaves(command))


def on_end(
    diagnostics: DiagnosticsArea, area: ConnectionArea, command: Command, outcome: CommandOutcome
) -> None:
    """A command of the client's has ended on a server."""
    code = command.code
    if command.shape == RESULTS and not outcome.error:
        statement, prepared = command.statement, command.prepared
        left = UNKNOWN if statement is None else statement.leaves
        if prepared is not None and prepared.asks_cursor:
            left &= ~FOUND_AS_SHOWN  # rows are still to be fetched
        diagnostics.on_success(area, left, outcome.rows, outcome.warnings, _repeatable(command))
    elif outcome.error:
        if code in KEEPING_CONDITIONS or code is _UNKNOWN or _is_about_nothing(command):
            diagnostics.on_refusal(area, code)
            return
        left = _leaves(command)
        several = command.statement is None or command.statement.multi
        found = bool(left & MAY_FIND_ROWS or (left & FOUND_ROWS and several))
        kept = left & MAY_FIND_ROWS != 0 and diagnostics.is_at(area, FOUND_ROWS)
        diagnostics.on_error(
            area,
            0,
            _repeatable(command),
            found=kept or (found and outcome.rows > 0),
            counts=left & _COUNTING != 0 and not command.is_read,
        )
    elif code is Code.COM_STMT_PREPARE:
        diagnostics.on_prepare(area, outcome.warnings, _repeatable(command))
    elif code in KEEPING_CONDITIONS:
        diagnostics.on_command(area, code, outcome.warnings)


def _leaves(command: Command) -> int:
    """What an execution leaves; 0 for any other command."""
    if command.shape != RESULTS:
        return 0
    return UNKNOWN if command.statement is None else command.statement.leaves


def _is_about_nothing(command: Command) -> bool:
    """Whether it is about a prepared statement that there is not."""
    return command.code in _OF_PREPARED and command.prepared is None


def _repeatable(command: Command) -> bytes:
    """A statement's packet, if it may run again, on another server, as it came.

    Also that of a COM_STMT_PREPARE. An execution may not: it needs what the server was told before.
    """
    if command.is_query:
        statement = command.statement
        if statement is None or statement.multi:
            return b""
        kind = statement.kind
        return command.packet if kind is _READ or kind is _DIAGNOSTIC else b""
    return command.packet if command.code is Code.COM_STMT_PREPARE else b""
