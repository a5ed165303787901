"""SET gtid_next and SET gtid_purged, which do more than store a value."""

from typing import Final

from mysql_mocker.error import MySQLError
from mysql_mocker.sql.value import Value
from mysql_mocker.state.session import Session
from protocol.errors import MalformedGtidSetError
from protocol.gtid import GtidSet

_PURGED: Final = "@@GLOBAL.GTID_PURGED cannot be changed: "


async def assign(session: Session, scope: str, name: str, value: Value) -> bool:
    """Assigns `gtid_next` or `gtid_purged`; False for every other variable.

    Raises:
        MySQLError: the server's error for what is wrong.
    """
    if name == "gtid_next" and scope == "session":
        await session.gtid_next.assign(_text(name, value))
        session.trackers.variable_set(name)
        return True
    if name == "gtid_purged" and scope == "global":
        _purge(session, _text(name, value))
        return True
    return False


def _text(name: str, value: Value) -> str:
    if value is None:
        raise _wrong(name, "NULL")
    if isinstance(value, int | float):
        raise MySQLError(1232, "42000", f"Incorrect argument type to variable '{name}'")
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _wrong(name: str, text: str) -> MySQLError:
    return MySQLError(1231, "42000", f"Variable '{name}' can't be set to the value of '{text}'")


def _purge(session: Session, text: str) -> None:
    """SET GLOBAL gtid_purged: ``+set`` adds to it, another text replaces it.

    What is added counts as executed, and is in the table at once (the worklog: at the next
    rotation).
    """
    session.gtid_next.check_purgeable()
    server = session.server
    adding = text.lstrip().startswith("+")
    try:
        gtids = GtidSet.parse(text.lstrip().removeprefix("+"))
        purged = GtidSet.parse(str(server.variable("gtid_purged")))
    except MalformedGtidSetError as error:
        raise _wrong("gtid_purged", text) from error
    executed = server.gtids.executed
    if adding and gtids & executed:
        raise _refused("the added gtid set must not overlap with @@GLOBAL.GTID_EXECUTED")
    if not adding and not purged <= gtids:
        raise _refused("the new value must be a superset of the old value")
    if not adding and (gtids - purged) & executed:
        raise _refused(
            "the being assigned value contains some GTIDs that are in @@GLOBAL.GTID_EXECUTED but "
            "not in @@GLOBAL.GTID_PURGED"
        )
    server.gtids.purged = purged | gtids
    server.keeper.save(gtids)
    server.gtids.add(gtids)


def _refused(why: str) -> MySQLError:
    return MySQLError(3546, "HY000", _PURGED + why)
