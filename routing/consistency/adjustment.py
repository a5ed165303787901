"""How level, scope, budget and policies are written, and read.

The same names and values are used in the configuration, in ``SET tidegate_…``, in query attributes
``tidegate.…`` and in a leading comment ``/* tidegate … */``.
"""

import re
from dataclasses import dataclass
from typing import Final

from routing.consistency.decision import (
    ConflictPolicy,
    Level,
    Scope,
    TimeoutPolicy,
    TransactionReads,
)
from routing.consistency.rules import AUTO, Rules, TransactionRules, WaitBudget

MAX_WAIT_BUDGET: Final = 60.0
"""Longest wait budget, seconds."""
MAX_STALENESS: Final = 86_400.0
"""Largest bound of BOUNDED_STALENESS, seconds."""
MAX_APPLICATION: Final = 255
"""Longest key of an application, bytes in UTF-8."""

_LEVEL: Final = re.compile(r"([A-Za-z][A-Za-z_-]*)\s*(?:\(\s*([^()]*?)\s*\))?", re.ASCII)
_NUMBER: Final = r"[0-9]{1,12}(?:\.[0-9]{1,9})?|\.[0-9]{1,9}"
_DURATION: Final = re.compile(rf"({_NUMBER}) *(us|ms|s|m|)", re.ASCII)
_UNITS: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}


class SettingError(ValueError):
    """An unknown setting, or a value that it cannot have; the message says what is allowed."""


@dataclass(frozen=True, slots=True)
class Adjustment:
    """Some settings; None leaves a rule as it is."""

    level: Level | None = None
    scope: Scope | None = None
    wait_budget: WaitBudget | None = None
    on_timeout: TimeoutPolicy | None = None
    staleness: float | None = None
    application: str | None = None
    transaction_reads: TransactionReads | None = None
    on_split_conflict: ConflictPolicy | None = None

    def applied_to(self, rules: Rules) -> Rules:
        """The rules with these settings in them."""
        reads, conflict = self.transaction_reads, self.on_split_conflict
        transactions = TransactionRules(
            rules.transaction_reads if reads is None else reads,
            rules.on_split_conflict if conflict is None else conflict,
        )
        return Rules(
            level=rules.level if self.level is None else self.level,
            scope=rules.scope if self.scope is None else self.scope,
            wait_budget=rules.budget if self.wait_budget is None else self.wait_budget,
            on_timeout=rules.on_timeout if self.on_timeout is None else self.on_timeout,
            staleness=rules.staleness if self.staleness is None else self.staleness,
            application=rules.application if self.application is None else self.application,
            transactions=transactions,
        )

    def and_then(self, later: "Adjustment") -> "Adjustment":
        """Both combined; where both set something, the later one counts."""
        reads, conflict = later.transaction_reads, later.on_split_conflict
        return Adjustment(
            level=self.level if later.level is None else later.level,
            scope=self.scope if later.scope is None else later.scope,
            wait_budget=self.wait_budget if later.wait_budget is None else later.wait_budget,
            on_timeout=self.on_timeout if later.on_timeout is None else later.on_timeout,
            staleness=self.staleness if later.staleness is None else later.staleness,
            application=self.application if later.application is None else later.application,
            transaction_reads=self.transaction_reads if reads is None else reads,
            on_split_conflict=self.on_split_conflict if conflict is None else conflict,
        )


NO_ADJUSTMENT: Final = Adjustment()


def read_setting(name: str, value: str) -> Adjustment:
    """Make an adjustment of one setting.

    Args:
        name: one of `SETTINGS`.
        value: its text, without quotes. A number without a unit is milliseconds.

    Raises:
        SettingError: name or value is not known.
    """
    if name == "consistency":
        level, staleness = read_level(value)
        return Adjustment(level=level, staleness=staleness)
    if name == "scope":
        return Adjustment(scope=Scope(_word(value, tuple(Scope))))
    if name == "wait_budget":
        return Adjustment(wait_budget=_read_budget(value))
    if name == "on_timeout":
        return Adjustment(on_timeout=TimeoutPolicy(_word(value, tuple(TimeoutPolicy))))
    if name == "application":
        return Adjustment(application=read_application(value))
    if name == "transaction_reads":
        return Adjustment(transaction_reads=TransactionReads(_word(value, tuple(TransactionReads))))
    if name == "on_split_conflict":
        return Adjustment(on_split_conflict=ConflictPolicy(_word(value, tuple(ConflictPolicy))))
    raise SettingError(f"no setting {name!r}; known are {', '.join(SETTINGS)}")


SETTINGS: Final = (
    *("consistency", "scope", "wait_budget", "on_timeout", "application", "transaction_reads"),
    "on_split_conflict",
)


def read_level(value: str) -> tuple[Level, float | None]:
    """Read ``STRONG`` or ``BOUNDED_STALENESS(500ms)``: level, and bound in seconds.

    Raises:
        SettingError: no such level, or a bound that does not belong there, or a missing one.
    """
    match = _LEVEL.fullmatch(value.strip())
    level = Level(_word(match[1] if match else value, tuple(Level)))
    bound = match[2] if match else None
    if level is not Level.BOUNDED_STALENESS:
        if bound is not None:
            raise SettingError(f"{level} takes no bound")
        return level, None
    if bound is None:
        raise SettingError("want BOUNDED_STALENESS(bound), such as BOUNDED_STALENESS(500ms)")
    return level, read_duration(bound, MAX_STALENESS)


def written_level(level: Level, staleness: float) -> str:
    """Write what `read_level` reads."""
    if level is not Level.BOUNDED_STALENESS:
        return str(level)
    return f"{level}({f'{staleness * 1000:.3f}'.rstrip('0').rstrip('.')}ms)"


def read_duration(value: str, most: float) -> float:
    """Read ``250ms``, ``1.5s`` or a plain number of milliseconds; return seconds.

    Raises:
        SettingError: not a time above 0 and at most `most` seconds.
    """
    match = _DURATION.fullmatch(value.strip())
    seconds = float(match[1]) * _UNITS[match[2] or "ms"] if match else 0.0
    if not 0 < seconds <= most:
        raise SettingError(
            f"want a duration such as 250ms or 1.5s (without a unit: milliseconds), above 0 and at"
            f" most {most:g}s"
        )
    return seconds


def _read_budget(value: str) -> WaitBudget:
    """Read `auto` or a duration.

    Raises:
        SettingError: it is neither.
    """
    if value.strip().lower() == AUTO:
        return AUTO
    try:
        return read_duration(value, MAX_WAIT_BUDGET)
    except SettingError as error:
        raise SettingError(f"{error}, or auto") from error


def read_application(value: str) -> str:
    """Check an application's key.

    Raises:
        SettingError: it is too long, or holds control characters.
    """
    too_long = len(value.encode("utf-8", "surrogateescape")) > MAX_APPLICATION
    if too_long or any(ord(character) < 32 for character in value):
        raise SettingError(
            f"want an application key of at most {MAX_APPLICATION} bytes without control characters"
        )
    return value


def _word(value: str, choices: tuple[str, ...]) -> str:
    word = value.strip().replace("-", "_").lower()
    for choice in choices:
        if choice.lower() == word:
            return str(choice)
    raise SettingError(f"want one of {', '.join(choices)}")
