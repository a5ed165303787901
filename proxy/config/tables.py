"""The tables of the file: rules for single users, schemas and listeners."""

import difflib
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Final, TypeVar

from proxy.address import Address
from proxy.config import toml_text, values
from proxy.config.options import BY_NAME
from routing.consistency.adjustment import NO_ADJUSTMENT, Adjustment, written_level

K = TypeVar("K", bound=Hashable)

KEYS: Final = (
    *("consistency", "scope", "wait-budget", "on-timeout", "application", "transaction-reads"),
    "on-split-conflict",
)
"""The keys that a table may have."""

LIMIT: Final = "max-user-connections"
"""One that only a user's table may have; it is no rule of consistency."""


class Table(Mapping[K, Adjustment]):
    """What the tables of one kind say, by name. Immutable, and can be sent to another process."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[K, Adjustment] | None = None) -> None:
        self._entries = dict(entries or {})

    def __getitem__(self, name: K) -> Adjustment:
        return self._entries[name]

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __hash__(self) -> int:
        return hash(frozenset(self._entries.items()))

    def __repr__(self) -> str:
        return f"Table({self._entries!r})"


def _name(raw: object) -> str:
    if not isinstance(raw, str) or not raw:
        raise ValueError("want a name")
    return raw


_listener: Final = values.address("0.0.0.0", None, 1)

KINDS: Final[Mapping[str, Callable[[object], str | Address]]] = {
    "users": _name,
    "schemas": _name,
    "listeners": _listener,
}
"""The kinds of tables, and for each kind the reader of a table's name."""


def read(kind: str, raw: object, report: Callable[[str], None]) -> Table[str | Address]:
    """Read all tables of one kind.

    Args:
        kind: one of `KINDS`.
        raw: what the TOML file has under that name.
        report: is told of each thing that is wrong, in words that begin with the table's header;
            what is wrong is left out.
    """
    found: dict[str | Address, Adjustment] = {}
    headers: dict[str | Address, str] = {}
    for text, content in _content(raw, kind, f"tables [{kind}.NAME]", report).items():
        header = toml_text.header(kind, text)
        try:
            name = KINDS[kind](text)
        except ValueError as error:
            report(f"{header}: {error}")
            continue
        if name in headers:
            report(f"{header}: given twice, as {headers[name]}")
            continue
        headers[name] = header
        keys = _content(content, f"[{kind}]: {text}", f"a table {header}", report)
        if kind == "users":
            keys = {key: raw for key, raw in keys.items() if key.replace("_", "-") != LIMIT}
        found[name] = _read_table(header, keys, report)
    return Table(found)


def read_limits(raw: object, report: Callable[[str], None]) -> dict[str, int]:
    """Read `LIMIT` from all tables of users, for those that have one."""
    found: dict[str, int] = {}
    for user, content in raw.items() if isinstance(raw, dict) else ():
        for key, value in content.items() if isinstance(content, dict) else ():
            if key.replace("_", "-") != LIMIT:
                continue
            header = toml_text.header("users", user)
            try:
                found[user] = _limit(value)
            except ValueError as error:
                report(f"{header}: {key} = {toml_text.written(value)}: {error}")
    return found


_limit: Final = values.integer(1, 1_000_000)


def _content(
    raw: object, where: str, wanted: str, report: Callable[[str], None]
) -> Mapping[str, object]:
    if isinstance(raw, dict):
        return raw
    report(f"{where} = {toml_text.written(raw)}: want {wanted}")
    return {}


def _read_table(
    header: str, content: Mapping[str, object], report: Callable[[str], None]
) -> Adjustment:
    adjustment = NO_ADJUSTMENT
    seen: dict[str, str] = {}
    for text, raw in content.items():
        key = text.replace("_", "-")
        if key not in KEYS:
            report(f"{header}: {text}: {_unknown_key(key)}")
        elif key in seen:
            report(f"{header}: {text}: given twice, as {seen[key]}")
        else:
            seen[key] = text
            try:
                adjustment = adjustment.and_then(_read_key(key, raw))
            except ValueError as error:
                report(f"{header}: {text} = {toml_text.written(raw)}: {error}")
    return adjustment


def _unknown_key(key: str) -> str:
    if key in BY_NAME:
        return "cannot be set in a table; write it above the first table"
    near = difflib.get_close_matches(key, KEYS, n=1, cutoff=0.5)
    return (
        f"unknown key; did you mean {near[0]}?"
        if near
        else (f"unknown key; known are {', '.join(KEYS)}")
    )


def _read_key(key: str, raw: object) -> Adjustment:
    match key:
        case "consistency":
            level, staleness = values.consistency(raw)
            return Adjustment(level=level, staleness=staleness or None)
        case "scope":
            return Adjustment(scope=values.scope(raw))
        case "wait-budget":
            return Adjustment(wait_budget=values.wait_budget(raw))
        case "on-timeout":
            return Adjustment(on_timeout=values.timeout_policy(raw))
        case "transaction-reads":
            return Adjustment(transaction_reads=values.transaction_reads(raw))
        case "on-split-conflict":
            return Adjustment(on_split_conflict=values.conflict_policy(raw))
        case _:
            return Adjustment(application=values.application(raw))


def to_toml(
    kind: str,
    table: Mapping[str, Adjustment] | Mapping[Address, Adjustment],
    limits: Mapping[str, int] | None = None,
) -> str:
    """Write tables as `read` and `read_limits` read them."""
    lines: list[str] = []
    for name, adjustment in table.items():
        lines += ["", toml_text.header(kind, str(name))]
        level = adjustment.level
        shown = {
            "consistency": level and written_level(level, adjustment.staleness or 0.0),
            "scope": adjustment.scope,
            "wait-budget": adjustment.wait_budget,
            "on-timeout": adjustment.on_timeout,
            "application": adjustment.application,
            "transaction-reads": adjustment.transaction_reads,
            "on-split-conflict": adjustment.on_split_conflict,
            LIMIT: (limits or {}).get(str(name)),
        }
        lines += [f"{k} = {toml_text.written(v)}" for k, v in shown.items() if v is not None]
    return "".join(f"{line}\n" for line in lines)
