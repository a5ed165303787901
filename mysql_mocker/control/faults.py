"""Faults of statements, as they are asked for and as they are shown."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mysql_mocker.control.error import ControlError, Wrong, unknown_name, wrong_value
from mysql_mocker.control.values import duration, text, whole_number
from mysql_mocker.error import MySQLError
from mysql_mocker.state.faults import Fault

FIELDS: Final = ("on", "match", "error", "sqlstate", "message", "delay", "drop", "times")
ALWAYS: Final = "always"

_KINDS: Final = ("error", "delay", "drop")
_DROPS: Final = ("before", "after")
_MOST_TIMES: Final = 10**9
_MOST_TEXT: Final = 500
_CLIENT_ERRORS: Final = range(2000, 3000)
_ERRORS: Final[dict[int, tuple[str, str]]] = {
    1040: ("08004", "Too many connections"),
    1053: ("08S01", "Server shutdown in progress"),
    1062: ("23000", "Duplicate entry '1' for key 'PRIMARY'"),
    1114: ("HY000", "The table is full"),
    1142: ("42000", "Command denied to user"),
    1158: ("08S01", "Got an error reading communication packets"),
    1205: ("HY000", "Lock wait timeout exceeded; try restarting transaction"),
    1213: ("40001", "Deadlock found when trying to get lock; try restarting transaction"),
    1290: ("HY000", "The MySQL server is running with the --read-only option so it cannot execute "
                    "this statement"),
    1317: ("70100", "Query execution was interrupted"),
    1792: ("25006", "Cannot execute statement in a READ ONLY transaction."),
    1836: ("HY000", "Running in read-only mode"),
    3024: ("HY000", "Query execution was interrupted, maximum statement execution time exceeded"),
    3101: ("40000", "Plugin instructed the server to rollback the current transaction."),
}  # fmt: skip
"""SQLSTATE and text of errors that applications are tested against."""


@dataclass(frozen=True, slots=True)
class Armed:
    """A fault that can still happen.

    Attributes:
        id: by which it can be cleared; no other fault of the cluster has it.
        fields: what was given for it.
    """

    id: int
    fault: Fault
    fields: dict[str, str | int] = field(default_factory=dict)

    def shown(self) -> dict[str, str | int]:
        """Its fields; `times` is how often it can still happen."""
        left = ALWAYS if self.fault.times is None else max(0, self.fault.times)
        return {"id": self.id, **self.fields, "times": left, "happened": self.fault.happened}


def read(fields: Mapping[str, object]) -> tuple[Fault, dict[str, str | int]]:
    """A fault, and its fields as they are shown.

    Raises:
        ControlError: a field is unknown or wrong, or two of them exclude each other.
    """
    for name in fields:
        if name not in FIELDS:
            raise unknown_name("field of a fault", name, list(FIELDS))
    kinds = [kind for kind in _KINDS if kind in fields]
    if len(kinds) != 1:
        raise ControlError(
            Wrong.WRONG_VALUE,
            "a fault wants one of error (a number such as 1213), delay (such as '2s') and drop "
            "('before' or 'after' the statement has run)",
        )
    shown: dict[str, str | int] = {}
    fault = Fault(b"", _times(fields.get("times", 1)), login=_on_login(fields))
    if not fault.login:
        fault.pattern = _pattern(fields.get("match", ""))
    shown["on"] = "login" if fault.login else "statement"
    shown["match"] = fault.pattern.pattern if fault.pattern else ""
    match kinds[0]:
        case "error":
            fault.error = _error(fields)
            shown |= {"error": fault.error.code, "sqlstate": fault.error.sqlstate,
                      "message": fault.error.message}  # fmt: skip
        case "delay":
            fault.delay = duration("delay", fields["delay"])
            shown["delay"] = str(fields["delay"])
        case _:
            shown["drop"] = drop = str(fields["drop"])
            if drop not in _DROPS:
                raise wrong_value("drop", "'before' or 'after' (the statement has run)")
            if drop == "before":
                fault.unheard = True
            else:
                fault.budget = 0
    if kinds[0] != "error" and ("sqlstate" in fields or "message" in fields):
        raise ControlError(Wrong.WRONG_VALUE, "sqlstate and message belong to error")
    return fault, shown


def _on_login(fields: Mapping[str, object]) -> bool:
    on = fields.get("on", "statement")
    if on not in ("statement", "login"):
        raise wrong_value("on", "'statement' or 'login'")
    if on == "login" and ("match" in fields or fields.get("drop") == "after"):
        raise ControlError(Wrong.WRONG_VALUE, "match, and drop 'after', belong to statements")
    return on == "login"


def _times(raw: object) -> int | None:
    if raw == ALWAYS:
        return None
    try:
        return whole_number("times", raw, 1, _MOST_TIMES)
    except ControlError as error:
        raise wrong_value("times", f"a whole number from 1 on, or '{ALWAYS}'") from error


def _pattern(raw: object) -> re.Pattern[str]:
    try:
        return re.compile(text("match", raw, _MOST_TEXT), re.IGNORECASE | re.DOTALL)
    except (re.error, OverflowError, RecursionError) as error:
        raise wrong_value("match", f"a regular expression ({error})") from error


def _error(fields: Mapping[str, object]) -> MySQLError:
    code = whole_number("error", fields["error"], 1000, 65535)
    if code in _CLIENT_ERRORS:
        raise wrong_value("error", "an error of servers; 2000 to 2999 are clients' own: see drop")
    state, message = _ERRORS.get(code, ("HY000", f"Error {code}, as the mocker was told"))
    state = text("sqlstate", fields.get("sqlstate", state), 5)
    if not re.fullmatch("[0-9A-Z]{5}", state):
        raise wrong_value("sqlstate", "five digits or capital letters, such as '40001'")
    return MySQLError(code, state, text("message", fields.get("message", message), _MOST_TEXT))
