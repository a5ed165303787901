"""Readers of options: each makes an option's value of what was given for it.

That is a typed value from TOML or a text from the command line. A reader raises ValueError with
what is allowed.
"""

import re
from collections.abc import Callable, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Final, cast, get_args
from urllib.parse import urlsplit

from protocol.compression import Algorithm
from proxy.address import Address
from routing.consistency.adjustment import MAX_WAIT_BUDGET, read_application, read_level
from routing.consistency.decision import (
    ConflictPolicy,
    Level,
    LostPolicy,
    Scope,
    TimeoutPolicy,
    TransactionReads,
)
from routing.consistency.rules import AUTO, WaitBudget


def _text(raw: object, wanted: str) -> str:
    if not isinstance(raw, str) or not raw.strip() or "\0" in raw:
        raise ValueError(f"want {wanted}")
    return raw.strip()


def address(
    default_host: str, default_port: int | None, lowest_port: int
) -> Callable[[object], Address]:
    """Read an address; without a default port it must have one."""

    def read(raw: object) -> Address:
        text = _text(raw, 'HOST:PORT, such as "db1.example:3306"')
        parsed = Address.parse(text, default_host=default_host, default_port=default_port)
        if parsed.port < lowest_port:
            raise ValueError(f"want a port from {lowest_port} to 65535")
        return parsed

    return read


server: Final = address("127.0.0.1", 3306, 1)


def servers(raw: object) -> tuple[Address, ...]:
    """Read one address, several with commas between them, or an array of such texts."""
    texts: list[object] = []
    for item in raw if isinstance(raw, list) else [raw]:
        texts += item.split(",") if isinstance(item, str) else [item]
    return tuple(server(text) for text in texts)


def networks(raw: object) -> tuple[IPv4Network | IPv6Network, ...]:
    """Read networks such as ``10.0.0.0/8``: one, several with commas between, or an array."""
    wanted = 'want networks such as "10.0.0.0/8", "2001:db8::/32" or an address'
    found: list[IPv4Network | IPv6Network] = []
    for item in raw if isinstance(raw, list) else [raw]:
        for text in _text(item, wanted[5:]).split(","):
            try:
                found.append(ip_network(text.strip()))
            except ValueError as error:
                raise ValueError(f"{wanted}: {error}") from None
    return tuple(found)


def users(raw: object) -> tuple[str, ...]:
    """Read names of users: one, several with commas between, or an array."""
    found: list[str] = []
    for item in raw if isinstance(raw, list) else _text(raw, "names of users").split(","):
        name = _text(item, 'names of users, such as ["dba", "ops"]')
        if len(name) > _LONGEST_USER or "@" in name:
            raise ValueError(
                f"want names of users without a host, of at most {_LONGEST_USER} characters"
            )
        found.append(name)
    return tuple(found)


_LONGEST_USER: Final = 32

_DURATION: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+) *(us|ms|s|m|h|)", re.ASCII)
_UNITS: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}


def duration(most: float, zero: bool = False) -> Callable[[object], float]:
    """Read a time above 0, or 0 if that is allowed, and at most `most` seconds."""
    least = "from 0 to" if zero else "above 0 and at most"
    wanted = f'want a duration such as "250ms" or "1.5s", {least} {most:g}s'

    def read(raw: object) -> float:
        seconds = -1.0
        if isinstance(raw, str):
            match = _DURATION.fullmatch(raw.strip())
            seconds = float(match[1]) * _UNITS[match[2]] if match else -1.0
        elif isinstance(raw, int | float) and not isinstance(raw, bool):
            seconds = float(raw)
        if not 0 <= seconds <= most or (seconds == 0 and not zero):
            raise ValueError(wanted)
        return seconds

    return read


def duration_or_0(most: float) -> Callable[[object], float]:
    """Read a time of at most `most` seconds, or 0 without a unit, which turns something off."""
    positive = duration(most)

    def read(raw: object) -> float:
        nothing = isinstance(raw, int | float) and not isinstance(raw, bool) and raw == 0
        if nothing or raw in ("0", "0.0"):
            return 0.0
        return positive(raw)

    return read


def duration_or_off(most: float) -> Callable[[object], float | str]:
    """Read a time above 0 and of at most `most` seconds, or ``off``."""
    positive = duration(most)

    def read(raw: object) -> float | str:
        if isinstance(raw, str) and raw.strip().lower() == "off":
            return "off"
        try:
            return positive(raw)
        except ValueError as error:
            raise ValueError(f"{error}, or off") from error

    return read


def wait_budget(raw: object) -> WaitBudget:
    """Read a time above 0 and of at most `MAX_WAIT_BUDGET`, or ``auto``."""
    if isinstance(raw, str) and raw.strip().lower() == AUTO:
        return AUTO
    try:
        return _fixed_budget(raw)
    except ValueError as error:
        raise ValueError(f"{error}, or auto") from error


_fixed_budget: Final = duration(MAX_WAIT_BUDGET)


def integer(least: int, most: int) -> Callable[[object], int]:
    """Read a whole number."""
    wanted = f"want a whole number from {least} to {most}"

    def read(raw: object) -> int:
        if isinstance(raw, bool) or not re.fullmatch(r"[0-9]{1,18}", str(raw), re.ASCII):
            raise ValueError(wanted)
        if not least <= int(str(raw)) <= most:
            raise ValueError(wanted)
        return int(str(raw))

    return read


def number(least: float, most: float) -> Callable[[object], float]:
    """Read a number."""
    wanted = f"want a number from {least:.9g} to {most:.9g}"

    def read(raw: object) -> float:
        try:
            found = float("nan") if isinstance(raw, bool) else float(str(raw))
        except ValueError:
            raise ValueError(wanted) from None
        if not least <= found <= most:
            raise ValueError(wanted)
        return found

    return read


_SIZES: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size(least: int, most: int) -> Callable[[object], int]:
    """Read a number of bytes."""
    wanted = f'want a size in bytes, such as 67108864 or "64M", from {least} to {most}'

    def read(raw: object) -> int:
        match = re.fullmatch(r"([0-9]{1,18}) *([KMG]?)(?:i?B)?", str(raw).strip(), re.ASCII | re.I)
        count = int(match[1]) * _SIZES[match[2].upper()] if match else -1
        if not least <= count <= most:
            raise ValueError(wanted)
        return count

    return read


def size_or_0(least: int, most: int) -> Callable[[object], int]:
    """Read a number of bytes, or 0, which turns something off."""
    positive = size(least, most)

    def read(raw: object) -> int:
        if str(raw).strip() == "0":
            return 0
        try:
            return positive(raw)
        except ValueError as error:
            raise ValueError(f"{error}, or 0") from error

    return read


def choice(choices: Sequence[str]) -> Callable[[object], str]:
    """Read one of a few words, whatever its case; dashes and underscores are the same."""

    def read(raw: object) -> str:
        word = raw.strip().lower().replace("-", "_") if isinstance(raw, str) else ""
        for allowed in choices:
            if allowed.lower() == word:
                return allowed
        raise ValueError(f"want one of {', '.join(choices)}")

    return read


def consistency(raw: object) -> tuple[Level, float]:
    """Read a consistency level, and its bound in seconds; 0 where it takes none."""
    level, bound = read_level(_text(raw, f"one of {', '.join(Level)}"))
    if bound is None:
        return level, 0.0
    # Whole microseconds, so that the written form reads back as the same value.
    bound = round(bound, 6)
    if bound <= 0:
        raise ValueError("want a bound of at least 1us")
    return level, bound


def algorithms(raw: object) -> tuple[Algorithm, ...]:
    """Read compression algorithms, with commas between them, or an array of such."""
    items = raw.split(",") if isinstance(raw, str) else raw
    read = choice(tuple(Algorithm))
    found = [read(item) for item in items] if isinstance(items, list) and items else [read(None)]
    if len(set(found)) < len(found):
        raise ValueError("want each algorithm once")
    return tuple(Algorithm(word) for word in found)


def algorithms_or_off(raw: object) -> tuple[Algorithm, ...]:
    """Read compression algorithms as `algorithms` does; ``off`` or an empty array is none."""
    if raw == [] or (isinstance(raw, str) and raw.strip().lower() == "off"):
        return ()
    try:
        return algorithms(raw)
    except ValueError as error:
        raise ValueError(f"{error}, or off") from error


def scope(raw: object) -> Scope:
    """Read a scope."""
    return Scope(choice(tuple(Scope))(raw))


def timeout_policy(raw: object) -> TimeoutPolicy:
    """Read a timeout policy."""
    return TimeoutPolicy(choice(tuple(TimeoutPolicy))(raw))


def transaction_reads(raw: object) -> TransactionReads:
    """Read which transactions read from replicas."""
    return TransactionReads(choice(tuple(TransactionReads))(raw))


def conflict_policy(raw: object) -> ConflictPolicy:
    """Read what a read gets that would show another state than the reads before it."""
    return ConflictPolicy(choice(tuple(ConflictPolicy))(raw))


def lost_policy(raw: object) -> LostPolicy:
    """Read what a read gets after acknowledged writes were lost."""
    return LostPolicy(choice(tuple(LostPolicy))(raw))


def application(raw: object) -> str:
    """Read the key of an application."""
    if isinstance(raw, str):
        return read_application(raw)
    raise ValueError("want an application key, a string")


def path(raw: object) -> Path:
    """Read a path."""
    return Path(_text(raw, "a path"))


def url(raw: object) -> str:
    """Read an address of HTTP."""
    wanted = 'a URL such as "http://127.0.0.1:4318/v1/traces"'
    text = _text(raw, wanted)
    try:
        parts = urlsplit(text)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        known = False
    if not known or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError(f"want {wanted}")
    return text


def file_mode(raw: object) -> str:
    """Read permissions such as ``0660``, octal and as text: TOML's 660 is a decimal number."""
    text = _text(raw, 'permissions such as "0660"')
    if not re.fullmatch(r"0?[0-7]{3}", text, re.ASCII):
        raise ValueError('want permissions such as "0660"')
    return f"0{text[-3:]}"


def user(raw: object) -> str:
    """Read a user name."""
    return _text(raw, "a user name")


def name(raw: object) -> str:
    """Read a name that can stand in a file name and in a metric label."""
    text = _text(raw, "a name")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", text, re.ASCII):
        raise ValueError("want at most 64 letters, digits, dots, dashes and underscores")
    return text


def table(raw: object) -> str:
    """Read ``schema.table``; return it with both names quoted for SQL."""
    text = _text(raw, "a table")
    match = re.fullmatch(r"(`?)([\w$-]{1,64})\1\.(`?)([\w$-]{1,64})\3", text)
    if match is None:
        raise ValueError("want SCHEMA.TABLE")
    return f"`{match[2]}`.`{match[4]}`"


def words(literal: object) -> tuple[str, ...]:
    """Return the words of a `Literal` type."""
    return cast("tuple[str, ...]", get_args(literal))
