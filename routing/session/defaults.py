"""What a server's sessions begin with: the values of variables that decide the answers to reads.

Theory of operation
===================

A session is to read everywhere as it would on the primary. So what it began with there is part of
its state, like the variables that it has set: one SET GLOBAL on one server, or one line in one
my.cnf, would otherwise move the hours in its reads. Each login asks its server for these values,
as one column (`COLUMN`). Where the primary's and a replica's are the same bytes, there is nothing
to be done. Otherwise the replica is told what is different before it reads for the session.

How much memory a statement may take, and how long a connection may be idle, is each server's own.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from routing.session.variables import (
    CARRIED,
    FLAGS,
    ISOLATION,
    LATER,
    OF_SERVERS,
    PINNING,
    SWE7,
    SWITCH,
    exact,
    has_letters_for_signs,
    literal_of,
    pins,
)

_CLIENT: Final = "character_set_client"
_RESULTS: Final = "character_set_results"
_COLLATION: Final = "collation_connection"
SETS: Final = (_CLIENT, _RESULTS, _COLLATION)
"""The character sets that a login chooses, and a reset does not."""
_NAME: Final = re.compile("[a-z0-9_]{1,64}")
_ABSENT: Final = "?"
_WHOLE_NUMBER: Final = re.compile("[0-9]+")
_JOINED: Final = "\x1f"
_LIMIT: Final = "max_join_size"
_LIMITED: Final = "sql_big_selects"
_TIME: Final = "max_execution_time"
_SQL_MODE: Final = "sql_mode"
_ZONE: Final = "time_zone"
_SYSTEM_ZONE: Final = "system_time_zone"

_FOLLOWING: Final = frozenset({"character_set_connection", "character_set_server"})
"""Setting a collation sets these."""
_WITH_GLOBAL: Final = frozenset({"optimizer_trace", "profiling", "sql_auto_is_null"})
"""Those of `PINNING` that have a default."""

NAMES: Final = (
    *SETS,
    *sorted((CARRIED - OF_SERVERS - _FOLLOWING - {ISOLATION} - set(SETS)) | _WITH_GLOBAL),
    "system_time_zone",
)
"""In the order of their values. The isolation level is known by itself, since it also decides where
transactions read. The last one says what time_zone = SYSTEM means (`_LOCAL_TIMES`)."""

_DAYS: Final = tuple(f"{year}-{month}-01" for year in (1980, 2000, 2026) for month in ("01", "07"))
_LOCAL_TIMES: Final = ",".join(
    f"CONVERT_TZ(_latin1'{day}',_latin1'+00:00',_latin1'SYSTEM')" for day in _DAYS
)
"""What a server's own zone makes of winters and summers.

The variable system_time_zone does not tell: it is the abbreviation of the moment when the server
started (CET or CEST in one zone), and others have the same (CST in Chicago and in Shanghai).
"""
_UTC: Final = ",".join(f"{day} 00:00:00" for day in _DAYS)


def _value(name: str) -> str:
    if name == _SYSTEM_ZONE:
        return f"CONCAT_WS(0x2C,{_LOCAL_TIMES})"
    if name in LATER:
        return f"COALESCE(/*!{LATER[name]} @@SESSION.{name}, */0x3F)"
    return f"IFNULL(@@SESSION.{name},'')" if name == _RESULTS else f"@@SESSION.{name}"


COLUMN: Final = f"CONCAT_WS(0x1F,{','.join(map(_value, NAMES))}) d".encode("ascii")
"""The values, joined; its separator makes them binary, so that no character set changes them."""
ASK: Final = b"SELECT " + COLUMN + b" LIMIT 1"
"""The question for them alone. The LIMIT is stronger than a default sql_select_limit."""
ROOM: Final = 4096
"""Bytes of a packet that are enough for a question with `COLUMN` in it. A server that takes less is
not asked what its sessions begin with."""


@dataclass(frozen=True, slots=True)
class Defaults:
    """What one session begins with, or has again after a reset.

    Attributes:
        row: the value of `COLUMN`.
        values: the same by name; empty if the server did not say.
        pinning: variables that keep the session on the primary from its beginning.
        limits_time: a read may only take so long.
    """

    row: bytes
    values: Mapping[str, str] = field(compare=False)
    pinning: tuple[str, ...] = field(default=(), compare=False)
    limits_time: bool = field(default=False, compare=False)

    @property
    def sql_mode(self) -> str:
        """Its sql_mode."""
        return self.values.get(_SQL_MODE, "")

    @property
    def character_set(self) -> str:
        """Its character_set_client."""
        return self.values.get(_CLIENT, "")

    def in_sets_of(self, other: "Defaults") -> "Defaults":
        """The same in another session's character sets."""
        if not self.values or not other.values:
            return self
        parts = self.row.split(_JOINED.encode("ascii"))
        parts[: len(SETS)] = other.row.split(_JOINED.encode("ascii"))[: len(SETS)]
        return defaults_of(_JOINED.encode("ascii").join(parts))


@lru_cache(maxsize=64)
def defaults_of(row: bytes) -> Defaults:
    """Read the value of `COLUMN`."""
    texts = row.decode("ascii", "replace").split(_JOINED)
    if len(texts) != len(NAMES):
        return Defaults(row, {})
    values = dict(zip(NAMES, texts, strict=True))
    pinning = [name for name, value in values.items() if name in PINNING and pins(name, value)]
    pinning += [
        name
        for name, value in values.items()
        if value != _ABSENT and literal_shown(name, value) is None
    ]
    if has_letters_for_signs(values[_CLIENT]):
        pinning.append(SWE7)
    return Defaults(row, values, tuple(pinning), values[_TIME] != "0")


UNKNOWN: Final = defaults_of(b"")
"""Of a server that did not say."""


@lru_cache(maxsize=256)
def differences(own: Defaults, other: Defaults) -> Mapping[str, str]:
    """What a server must be told, so that a session there has `own` in place of `other`.

    Returns:
        Literals by name, in the order in which they are to be set, as `Session.variables`.
    """
    theirs = other.values
    found = {
        name: value
        for name, value in own.values.items()
        if theirs.get(name, _ABSENT) not in (value, _ABSENT) and value != _ABSENT
    }
    if not found:
        return found
    if _LIMIT in found:  # setting it sets the other, too
        found[_LIMITED] = own.values[_LIMITED]
    assignments: dict[str, str] = {}
    if not found.keys().isdisjoint(SETS):
        assignments.update(character_sets(*(own.values[name] for name in SETS)))
    if own.values[_ZONE] == "SYSTEM" and _SYSTEM_ZONE in found:
        found[_ZONE] = _zone_of(found[_SYSTEM_ZONE])
    found.pop(_SYSTEM_ZONE, None)
    for name, value in sorted(found.items(), key=lambda item: item[0] == _LIMITED):
        if name == SWITCH:
            flags = flags_between(theirs[name], value)
            if flags:
                assignments[FLAGS] = flags
        elif name not in SETS:
            literal = literal_shown(name, value)
            if literal is not None:
                assignments[name] = literal
    return assignments


def _zone_of(system: str) -> str:
    """A time_zone for a server's own zone, of which these local times are known.

    Only UTC can be told. Anything else is to be refused (1298): the session then reads elsewhere.
    """
    return "+00:00" if system == _UTC else f"SYSTEM ({system})"


def character_sets(client: str, results: str, collation: str) -> dict[str, str]:
    """The assignments that give a session these character sets.

    A login gives all three its one collation, which columns of results are said to have. NAMES
    does, too; by its name alone, a set comes with its default collation.
    """
    if client == results and (collation == client or collation.startswith(client + "_")):
        return {"names": f"{client} COLLATE {collation}"}
    found: dict[str, str] = {}
    for name, value in zip(SETS, (client, results, collation), strict=True):
        literal = literal_shown(name, value)
        if literal is not None:
            found[name] = literal
    return found


def in_one_set(client: str, results: str, collation: str) -> bytes:
    """`character_sets` in the form for one SET of several variables."""
    return ",".join(
        f"NAMES {literal}" if name == "names" else f"{name}={exact(literal)}"
        for name, literal in character_sets(client, results, collation).items()
    ).encode("ascii")


def flags_between(before: str, after: str, also: str = "") -> str:
    """A literal of the flags of optimizer_switch by which two values differ; "" if by none.

    Args:
        before: a whole value.
        after: likewise.
        also: a literal of such as are to be in it in any case.
    """
    old = dict(flag.split("=", 1) for flag in before.split(",") if "=" in flag)
    named = {flag.split("=", 1)[0] for flag in also[1:-1].split(",")}
    flags = [flag for flag in after.split(",") if "=" in flag and _differs(flag, old, named)]
    return f"'{','.join(flags)}'" if flags else ""


def _differs(flag: str, old: Mapping[str, str], named: set[str]) -> bool:
    name, value = flag.split("=", 1)
    return name in old and (old[name] != value or name in named)


def literal_shown(name: str, value: str) -> str | None:
    """A value that a SELECT shows, in the form for SET; None if it cannot be written safely."""
    if name in SETS and value and _NAME.fullmatch(value) is None:
        return None
    return value if _WHOLE_NUMBER.fullmatch(value) else literal_of(name, value)
