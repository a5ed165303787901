"""The verbs as stored procedures: ``CALL mock.set('replica1', 'lag', '300ms')``.

Only CALL finds them: no table, variable or SHOW of the server lists them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mysql_mocker.columns.result_columns import made_up
from mysql_mocker.control.control import Control
from mysql_mocker.control.error import ControlError, Wrong, wrong_value
from mysql_mocker.control.faults import FIELDS
from mysql_mocker.control.settings import SETTINGS
from mysql_mocker.control.values import whole_number
from mysql_mocker.error import MySQLError
from mysql_mocker.sql.result import Done, Result, Rows
from mysql_mocker.sql.value import Row, Value

Arguments = Sequence[Value]

_CODES: Final = {
    Wrong.NOT_THERE: (1210, "HY000"),
    Wrong.UNKNOWN_NAME: (1193, "HY000"),
    Wrong.WRONG_VALUE: (1231, "42000"),
    Wrong.WRONG_STATE: (1105, "HY000"),
}
_MOST_ID: Final = 10**15


@dataclass(frozen=True, slots=True)
class Procedure:
    """One procedure.

    Attributes:
        usage: its arguments, as they are written; those in brackets may be left out.
        does: what it does, for `help`.
        fewest, most: how many arguments there may be.
    """

    run: Callable[[Arguments], Awaitable[Result]]
    usage: str
    does: str
    fewest: int = 0
    most: int = 0


class Procedures:
    """The procedures of schema `mock`, to be called on any server of the cluster."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._running: set[asyncio.Future[Result]] = set()
        self._all: dict[str, Procedure] = {
            "help": Procedure(self._help, "", "shows this"),
            "state": Procedure(self._state, "", "shows the state of the servers"),
            "set": Procedure(
                self._set, "server, setting, value[, setting, value …]",
                f"changes settings; they are {', '.join(SETTINGS)}", 3, 99,
            ),
            "fault": Procedure(
                self._fault, "server, field, value[, field, value …]",
                f"arms a fault; fields are {', '.join(FIELDS)}", 3, 99,
            ),
            "faults": Procedure(self._faults, "", "shows the faults that can still happen"),
            "clear": Procedure(self._clear, "[server[, id]]", "ends faults", 0, 2),
            "disconnect": Procedure(self._disconnect, "server", "breaks all connections", 1, 1),
            "promote": Procedure(
                self._promote, "server[, lose]",
                "makes a replica the primary, without the newest transactions of the old one", 1, 2,
            ),
            "reset": Procedure(self._reset, "", "undoes settings and faults; data and roles stay"),
            "statements": Procedure(
                self._statements, "server", "shows what clients sent to a server", 1, 1
            ),
        }  # fmt: skip

    async def call(self, name: str, arguments: Arguments) -> Result:
        """Runs a procedure.

        Raises:
            MySQLError: 1305 for an unknown one, 1318 for too few or too many arguments, and other
                errors for wrong arguments.
        """
        found = self._all.get(name)
        if found is None:
            raise MySQLError(
                1305, "42000",
                f"PROCEDURE mock.{name} does not exist; CALL mock.help() shows those that do",
            )  # fmt: skip
        if not found.fewest <= len(arguments) <= found.most:
            raise MySQLError(
                1318, "42000",
                f"Incorrect number of arguments for PROCEDURE mock.{name}; it is "
                f"mock.{name}({found.usage}), got {len(arguments)}",
            )  # fmt: skip
        # A task of its own goes on even if it ends the connection that asked for it.
        task = asyncio.ensure_future(found.run(arguments))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            return await asyncio.shield(task)
        except ControlError as error:
            raise MySQLError(*_CODES[error.wrong], f"mock.{name}: {error}") from error

    async def _help(self, _arguments: Arguments) -> Rows:
        rows: list[Row] = [
            (f"CALL mock.{name}({procedure.usage})", procedure.does)
            for name, procedure in self._all.items()
        ]
        return _rows(("Call", "What it does"), rows)

    async def _state(self, _arguments: Arguments) -> Rows:
        states = [state.as_json() for state in await self._control.state()]
        names = [name for name in states[0] if name != "faults"]
        rows = [[_value(state[name]) for name in names] for state in states]
        return _rows(names, rows)

    async def _set(self, arguments: Arguments) -> Done:
        await self._control.set(_text("server", arguments[0]), **_pairs(arguments[1:]))
        return Done()

    async def _fault(self, arguments: Arguments) -> Rows:
        shown = await self._control.fault(_text("server", arguments[0]), **_pairs(arguments[1:]))
        return _rows(list(shown), [list(shown.values())])

    async def _faults(self, _arguments: Arguments) -> Rows:
        names = ("server", "id", *FIELDS, "happened")
        rows = [
            [state.name, *(fault.get(name) for name in names[1:])]
            for state in await self._control.state()
            for fault in state.faults
        ]
        return _rows(names, rows)

    async def _clear(self, arguments: Arguments) -> Done:
        server = _text("server", arguments[0]) if arguments else "all"
        number = whole_number("id", arguments[1], 1, _MOST_ID) if len(arguments) > 1 else None
        await self._control.clear(server, number)
        return Done()

    async def _disconnect(self, arguments: Arguments) -> Done:
        await self._control.disconnect(_text("server", arguments[0]))
        return Done()

    async def _promote(self, arguments: Arguments) -> Rows:
        done = await self._control.promote(_text("server", arguments[0]), *arguments[1:])
        return _rows(("primary", "stopped"), [(done.primary, ", ".join(done.stopped))])

    async def _reset(self, _arguments: Arguments) -> Done:
        await self._control.reset()
        return Done()

    async def _statements(self, arguments: Arguments) -> Rows:
        texts = await self._control.statements(_text("server", arguments[0]))
        return _rows(("statement",), [(text,) for text in texts])


def _rows(names: Sequence[str], rows: Sequence[Row]) -> Rows:
    return Rows(made_up(names, rows), rows)


def _value(value: object) -> Value:
    if isinstance(value, bool):
        return int(value)
    return value if isinstance(value, int | str | None) else str(value)


def _text(name: str, value: Value) -> str:
    if not isinstance(value, str):
        raise wrong_value(name, "a text, such as 'replica1'")
    return value


def _pairs(arguments: Arguments) -> Mapping[str, Value]:
    """Names and values, alternating.

    Raises:
        ControlError: a name has no value, or comes twice.
    """
    names = [_text("a name", name) for name in arguments[::2]]
    if len(arguments) % 2 or len(set(names)) < len(names):
        raise ControlError(Wrong.WRONG_VALUE, "each name needs a value, and may be given once")
    return dict(zip(names, arguments[1::2], strict=True))
