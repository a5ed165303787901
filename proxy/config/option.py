"""One option: its name, what it takes, and how its text becomes its value."""

from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path

from protocol.compression import Algorithm
from proxy.address import Address
from proxy.config.log_keep import LogKeep
from routing.consistency.decision import Level

Value = (
    tuple[Level, float]
    | Address
    | tuple[Address, ...]
    | tuple[Algorithm, ...]
    | tuple[IPv4Network | IPv6Network, ...]
    | tuple[str, ...]
    | Path
    | LogKeep
    | str
    | int
    | float
)


@dataclass(frozen=True, slots=True)
class Option:
    """One option.

    Attributes:
        name: as the command line and the file write it.
        read: makes the value from what TOML or the command line gave; ValueError says what is
            allowed.
        metavar: stands for the value in ``--help``.
        help: one line for ``--help``.
        group: heading under which ``--help`` and the documentation show it.
        choices: all allowed words, if there are only a few.
        repeatable: may be given several times on the command line.
        at_start: only a start of the proxy reads it, and a reload names it if it has changed.
    """

    name: str
    read: Callable[[object], Value]
    metavar: str
    help: str
    group: str
    choices: tuple[str, ...] = ()
    repeatable: bool = False
    at_start: bool = False

    @property
    def attribute(self) -> str:
        """The field of `Config`."""
        return self.name.replace("-", "_")
