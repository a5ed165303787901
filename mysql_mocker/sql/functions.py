"""MySQL functions that SQLite lacks or that must give the same value on every server."""

import hashlib
import math
import random
import re
import sqlite3
import unicodedata
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from mysql_mocker.sql.value import Value

_RAND_MODULUS: Final = 0x3FFFFFFF


def rand_seeds(seed: int) -> tuple[int, int]:
    """The two numbers from which MySQL's RAND() starts."""
    return seed % _RAND_MODULUS, (seed >> 30) % _RAND_MODULUS


class Surroundings:
    """What a running statement sees besides its data.

    Attributes:
        timestamp: NOW() in seconds since the epoch, the same for the whole statement.
        random: the source of UUID(), seeded for each statement, as that of RAND() is, so that a
            replica that runs the statement again gets the same values.
        user_variables: the session's, for statements that assign them row by row.
        last_insert_id: what LAST_INSERT_ID(expr) stored, if it ran.
    """

    def __init__(self) -> None:
        self.timestamp = 0.0
        self.random = random.Random(0)  # noqa: S311 - repeatable on purpose, no secret
        self.user_variables: dict[str, Value] = {}
        self.last_insert_id: int | None = None
        self._seed1, self._seed2 = rand_seeds(0)

    def set(self, timestamp: float, seed: int) -> None:
        """Sets clock and random numbers for the next statement."""
        self.timestamp = timestamp
        self.random.seed(seed)
        self._seed1, self._seed2 = rand_seeds(seed)

    def rand(self) -> float:
        """RAND() as MySQL computes it, so that a real replica gets the same numbers."""
        self._seed1 = (3 * self._seed1 + self._seed2) % _RAND_MODULUS
        self._seed2 = (self._seed1 + self._seed2 + 33) % _RAND_MODULUS
        return self._seed1 / _RAND_MODULUS

    def now(self, digits: int = 0) -> str:
        """``YYYY-MM-DD hh:mm:ss`` in UTC, with up to six digits of a second's fraction."""
        moment = datetime.fromtimestamp(self.timestamp, UTC)
        text = moment.strftime("%Y-%m-%d %H:%M:%S")
        return f"{text}.{moment.microsecond:06d}"[: 20 + digits] if digits else text


_LARGEST: Final = float(2**64 - 1)


def _text(value: Value) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if value == _LARGEST:
        return str(2**64 - 1)  # of a variable: SQLite has no integer of 64 bits without a sign
    return str(value)


def _bytes(value: Value) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _number(value: Value) -> float:
    """A value as a number, as MySQL reads it: the longest beginning of a text that is one."""
    if isinstance(value, int | float):
        return value
    match = re.match(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", _text(value))
    return float(match[0]) if match else 0.0


_Function = Callable[..., Value]


def _null_if_any_null(function: _Function) -> _Function:
    def strict(*arguments: Value) -> Value:
        return None if None in arguments else function(*arguments)

    return strict


def _sha2(text: Value, bits: Value) -> Value:
    names = {0: "sha256", 224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}
    name = names.get(int(_number(bits)))
    return None if name is None else hashlib.new(name, _bytes(text)).hexdigest()


def _convert_tz(moment: Value, before: Value, after: Value) -> Value:
    """CONVERT_TZ between zones that are UTC here; no others are known."""
    if not {_text(before), _text(after)} <= {"+00:00", "SYSTEM", "UTC"}:
        return None
    return datetime.fromisoformat(_text(moment)).isoformat(" ")


_UNITS: Final = {
    "MICROSECOND": 1e-6, "SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86400, "WEEK": 604800,
}  # fmt: skip


def _date_add(moment: Value, amount: Value, unit: Value) -> Value:
    """DATE_ADD with a unit of fixed length; a date plus whole days stays a date."""
    text = _text(moment)
    seconds = _number(amount) * _UNITS[_text(unit)]
    shifted = datetime.fromisoformat(text) + timedelta(seconds=seconds)
    if len(text) == len("2000-01-01") and seconds % _UNITS["DAY"] == 0:
        return shifted.date().isoformat()
    return shifted.isoformat(" ")


def _hex(value: Value) -> Value:
    return f"{value:X}" if isinstance(value, int) else _bytes(value).hex().upper()


def _unhex(text: Value) -> Value:
    try:
        return bytes.fromhex(_text(text))
    except ValueError:
        return None


def _regexp(pattern: Value, text: Value) -> Value:
    return int(re.search(_text(pattern), _text(text), re.IGNORECASE) is not None)


def _regexp_replace(text: Value, pattern: Value, replacement: Value) -> Value:
    return re.sub(_text(pattern), lambda _: _text(replacement), _text(text), flags=re.IGNORECASE)


def _concat_ws(separator: Value, *parts: Value) -> Value:
    if separator is None:
        return None
    return _text(separator).join(_text(part) for part in parts if part is not None)


def _uuid_to_bin(text: Value) -> Value:
    return uuid.UUID(_text(text)).bytes


def _bin_to_uuid(packed: Value) -> Value:
    return str(uuid.UUID(bytes=_bytes(packed)))


# Name: (number of arguments, -1 for any; function). All but concat_ws make NULL of a NULL.
_PLAIN: Final[dict[str, tuple[int, _Function]]] = {
    "mysql_left": (2, lambda s, n: _text(s)[: max(0, int(_number(n)))]),
    "mysql_right": (2, lambda s, n: _text(s)[-int(_number(n)) :] if int(_number(n)) > 0 else ""),
    "repeat": (2, lambda s, n: _text(s) * max(0, int(_number(n)))),
    "char_length": (1, lambda s: len(_text(s))),
    "character_length": (1, lambda s: len(_text(s))),
    "octet_length": (1, lambda s: len(_bytes(s))),
    "upper": (1, lambda s: _text(s).upper()),
    "lower": (1, lambda s: _text(s).lower()),
    "locate": (2, lambda part, s: _text(s).lower().find(_text(part).lower()) + 1),
    "concat_ws": (-1, _concat_ws),
    "md5": (1, lambda s: hashlib.md5(_bytes(s), usedforsecurity=False).hexdigest()),
    "sha": (1, lambda s: hashlib.sha1(_bytes(s), usedforsecurity=False).hexdigest()),
    "sha1": (1, lambda s: hashlib.sha1(_bytes(s), usedforsecurity=False).hexdigest()),
    "sha2": (2, _sha2),
    "hex": (1, _hex),
    "unhex": (1, _unhex),
    "mod": (2, lambda a, b: math.fmod(_number(a), _number(b)) if _number(b) else None),
    "regexp": (2, _regexp),
    "regexp_replace": (3, _regexp_replace),
    "mysql_date_add": (3, _date_add),
    "mysql_convert_tz": (3, _convert_tz),
    "uuid_to_bin": (1, _uuid_to_bin),
    "bin_to_uuid": (1, _bin_to_uuid),
}  # fmt: skip


@lru_cache(maxsize=4096)
def _weight(text: str) -> str:
    """What a comparison of texts looks at: the text without case and accents."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))


def compare_text(left: str, right: str) -> int:
    """The collation utf8mb4_0900_ai_ci: negative, 0 or positive."""
    left_weight, other = _weight(left), _weight(right)
    return (left_weight > other) - (left_weight < other)


def _unix_timestamp(moment: Value) -> Value:
    if moment is None:
        return None
    parsed = datetime.fromisoformat(_text(moment)).replace(tzinfo=UTC).timestamp()
    return int(parsed) if parsed.is_integer() else parsed


def register(connection: sqlite3.Connection, surroundings: Surroundings) -> None:
    """Makes the functions and the collation known to a connection."""
    connection.create_collation("utf8mb4_0900_ai_ci", compare_text)
    for name, (count, function) in _PLAIN.items():
        chosen = function if name == "concat_ws" else _null_if_any_null(function)
        connection.create_function(name, count, chosen, deterministic=True)

    def unix_timestamp(*moment: Value) -> Value:
        return _unix_timestamp(*moment) if moment else int(surroundings.timestamp)

    def make_uuid() -> str:
        return str(uuid.UUID(int=surroundings.random.getrandbits(128), version=4))

    def user_variable(name: str) -> Value:
        return surroundings.user_variables.get(name)

    def assign_user_variable(name: str, value: Value) -> Value:
        surroundings.user_variables[name] = value
        return value

    def store_last_insert_id(value: Value) -> Value:
        surroundings.last_insert_id = int(_number(value))
        return surroundings.last_insert_id

    def now(digits: int) -> str:
        return surroundings.now(digits)

    for name, count, stateful in (
        ("mysql_now", 1, now),
        ("mysql_rand", 0, surroundings.rand),
        ("mysql_uuid", 0, make_uuid),
        ("unix_timestamp", -1, unix_timestamp),
        ("user_variable", 1, user_variable),
        ("assign_user_variable", 2, assign_user_variable),
        ("store_last_insert_id", 1, store_last_insert_id),
    ):
        connection.create_function(name, count, stateful)
