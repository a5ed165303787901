"""Functions whose value depends on the session or the server, and those that wait."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from mysql_mocker.error import MySQLError, malformed_gtid_set
from mysql_mocker.sql.value import Value
from mysql_mocker.state.session import Session
from mysql_mocker.state.variables import VERSION
from protocol.errors import MalformedGtidSetError, ServerErrorCode
from protocol.gtid import GtidSet

Arguments = Sequence[Value]
Function = Callable[[Session, Arguments], Awaitable[Value]]


def _wrong_arguments(name: str) -> MySQLError:
    return MySQLError(1210, "HY000", f"Incorrect arguments to {name}.")


def _wrong_count(name: str) -> MySQLError:
    return MySQLError(
        1582, "42000", f"Incorrect parameter count in the call to native function '{name}'"
    )


def _gtid_set(value: Value) -> GtidSet:
    """A set that a client wrote.

    The texts that the server silently takes for an empty set (fact 3.1) are an error here, so that
    no test passes because of them.
    """
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    try:
        return GtidSet.parse("" if value == "" else text)
    except MalformedGtidSetError as error:
        raise malformed_gtid_set(text) from error


def _seconds(value: Value) -> float:
    """A timeout; text that is no number is 0 (fact 4.1)."""
    try:
        return float(value or 0)
    except ValueError:
        return 0.0


async def _wait_for_executed_gtid_set(session: Session, arguments: Arguments) -> Value:
    if len(arguments) not in (1, 2):
        raise _wrong_count("WAIT_FOR_EXECUTED_GTID_SET")
    if arguments[0] is None:
        raise malformed_gtid_set("NULL")
    seconds = 0.0
    if len(arguments) > 1:
        seconds = _seconds(arguments[1])
        if arguments[1] is None or seconds < 0:
            raise _wrong_arguments("WAIT_FOR_EXECUTED_GTID_SET")
    wanted = _gtid_set(arguments[0])
    executed = await session.interruptible(session.server.gtids.wait(wanted, seconds))
    return int(not executed)


async def _gtid_subset(_session: Session, arguments: Arguments) -> Value:
    if len(arguments) != 2:
        raise _wrong_count("GTID_SUBSET")
    if None in arguments:
        return None
    return int(_gtid_set(arguments[0]) <= _gtid_set(arguments[1]))


async def _gtid_subtract(_session: Session, arguments: Arguments) -> Value:
    if len(arguments) != 2:
        raise _wrong_count("GTID_SUBTRACT")
    if None in arguments:
        return None
    return str(_gtid_set(arguments[0]) - _gtid_set(arguments[1]))


async def _sleep(session: Session, arguments: Arguments) -> Value:
    if len(arguments) != 1:
        raise _wrong_count("SLEEP")
    seconds = _seconds(arguments[0])
    if arguments[0] is None or seconds < 0:
        raise _wrong_arguments("SLEEP")
    try:
        await session.interruptible(asyncio.sleep(seconds))
    except MySQLError as error:
        interruptions = (ServerErrorCode.ER_QUERY_INTERRUPTED, ServerErrorCode.ER_QUERY_TIMEOUT)
        if error.code in [known.code for known in interruptions]:
            return 1  # Only SLEEP answers with 1 instead of an error.
        raise
    return 0


async def _get_lock(session: Session, arguments: Arguments) -> Value:
    if len(arguments) != 2:
        raise _wrong_count("GET_LOCK")
    seconds = _seconds(arguments[1])
    acquired = session.server.locks.acquire(str(arguments[0]), session.id)
    locked = await session.interruptible(acquired, None if seconds < 0 else seconds)
    return int(bool(locked))


async def _release_lock(session: Session, arguments: Arguments) -> Value:
    return session.server.locks.release(str(arguments[0]), session.id)


async def _release_all_locks(session: Session, _arguments: Arguments) -> Value:
    return session.server.locks.release_all(session.id)


async def _is_free_lock(session: Session, arguments: Arguments) -> Value:
    return int(session.server.locks.holder(str(arguments[0])) is None)


async def _is_used_lock(session: Session, arguments: Arguments) -> Value:
    return session.server.locks.holder(str(arguments[0]))


async def _connection_id(session: Session, _arguments: Arguments) -> Value:
    return session.id


async def _database(session: Session, _arguments: Arguments) -> Value:
    return session.schema


async def _user(session: Session, _arguments: Arguments) -> Value:
    return f"{session.user}@localhost"


async def _current_user(session: Session, _arguments: Arguments) -> Value:
    return f"{session.user}@%"


async def _current_role(_session: Session, _arguments: Arguments) -> Value:
    return "NONE"


async def _version(_session: Session, _arguments: Arguments) -> Value:
    return VERSION


async def _last_insert_id(session: Session, arguments: Arguments) -> Value:
    if arguments:
        session.last_insert_id = int(_seconds(arguments[0]))
    return session.last_insert_id


async def _row_count(session: Session, _arguments: Arguments) -> Value:
    return session.row_count


async def _found_rows(session: Session, _arguments: Arguments) -> Value:
    session.warn(
        "Warning",
        1287,
        "FOUND_ROWS() is deprecated and will be removed in a future release. Consider using "
        "COUNT(*) instead.",
    )
    return session.found_rows


FUNCTIONS: Final[dict[str, Function]] = {
    "WAIT_FOR_EXECUTED_GTID_SET": _wait_for_executed_gtid_set,
    "GTID_SUBSET": _gtid_subset,
    "GTID_SUBTRACT": _gtid_subtract,
    "SLEEP": _sleep,
    "GET_LOCK": _get_lock,
    "RELEASE_LOCK": _release_lock,
    "RELEASE_ALL_LOCKS": _release_all_locks,
    "IS_FREE_LOCK": _is_free_lock,
    "IS_USED_LOCK": _is_used_lock,
    "CONNECTION_ID": _connection_id,
    "DATABASE": _database,
    "SCHEMA": _database,
    "USER": _user,
    "SESSION_USER": _user,
    "SYSTEM_USER": _user,
    "CURRENT_USER": _current_user,
    "CURRENT_ROLE": _current_role,
    "VERSION": _version,
    "LAST_INSERT_ID": _last_insert_id,
    "ROW_COUNT": _row_count,
    "FOUND_ROWS": _found_rows,
}
