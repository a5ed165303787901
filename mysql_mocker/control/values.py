"""Reads values: texts, numbers or booleans, from SQL, JSON, Python or the command line.

Each reader takes a name and the value that was given for it. If the value is wrong, the reader
raises a ControlError that says what is allowed.
"""

import re
from typing import Final

from mysql_mocker.control.error import wrong_value

MOST_SECONDS: Final = 7 * 86400.0

_DURATION: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?|\.[0-9]{1,9}) *(us|ms|s|m|h|)", re.A)
_UNITS: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}
_SWITCH: Final = {"1": True, "on": True, "true": True, "yes": True,
                  "0": False, "off": False, "false": False, "no": False}  # fmt: skip


def duration(name: str, raw: object) -> float:
    """Seconds of ``300ms``, ``1.5s``, ``2m``, ``1h``, or of a number, which is in seconds.

    Raises:
        ControlError: it is not a duration, or longer than a week.
    """
    seconds = -1.0
    if isinstance(raw, str):
        match = _DURATION.fullmatch(raw.strip())
        seconds = float(match[1]) * _UNITS[match[2]] if match else -1.0
    elif isinstance(raw, int | float) and not isinstance(raw, bool):
        seconds = float(raw)
    if not 0 <= seconds <= MOST_SECONDS:
        raise wrong_value(name, "a duration such as '300ms', '1.5s' or '2m', at most a week")
    return seconds


def duration_text(seconds: float) -> str:
    """A duration as `duration` reads it: ``300ms``, ``1.5s``."""
    if 0 < seconds < 1:
        return f"{round(seconds * 1e3, 3):g}ms"
    return f"{round(seconds, 6):.12g}s"


def switch(name: str, raw: object) -> bool:
    """True or false: as a boolean, as 1 or 0, or as ``on`` or ``off``.

    Raises:
        ControlError: it is none of these.
    """
    found = _SWITCH.get(str(raw).strip().lower()) if isinstance(raw, bool | int | str) else None
    if found is None:
        raise wrong_value(name, "true or false, 1 or 0, 'on' or 'off'")
    return found


def text(name: str, raw: object, most: int) -> str:
    """A text of at most `most` characters.

    Raises:
        ControlError: it is not a text, or longer.
    """
    if not isinstance(raw, str) or len(raw) > most:
        raise wrong_value(name, f"a text of at most {most} characters")
    return raw


def whole_number(name: str, raw: object, least: int, most: int) -> int:
    """A whole number, also as a text.

    Raises:
        ControlError: it is not a whole number, or too small or too large.
    """
    digits = "" if isinstance(raw, bool) else str(raw).strip()
    if not re.fullmatch(r"[0-9]{1,18}", digits, re.A) or not least <= int(digits) <= most:
        raise wrong_value(name, f"a whole number from {least} to {most}")
    return int(digits)
