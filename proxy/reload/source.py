"""Where the configuration comes from, and what has changed there.

What only a start can change stays as it is (`Option.at_start`), and is named at each reload until
the proxy is started anew. If another option makes no sense beside what stays, it waits for the
start, too.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from proxy.config import ConfigError, cross_checks, toml_text
from proxy.config.options import OPTIONS
from proxy.config.tables import KINDS, Table
from proxy.tls.materials import KeyRing, build, make_key_ring

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from proxy.address import Address
    from proxy.config import Config
    from routing.consistency.adjustment import Adjustment

_MORE: Final[Mapping[str, tuple[str, ...]]] = {
    "admin-token-file": ("admin_token",),
    "consistency": ("staleness",),
    "monitor-password-file": ("monitor_password",),
    "token-key-file": ("token_keys",),
}
"""Attributes of `Config` that an option decides besides its own."""
ATTRIBUTES: Final[Mapping[str, tuple[str, ...]]] = {
    option.name: (option.attribute, *_MORE.get(option.name, ())) for option in OPTIONS
} | {
    **{kind: (kind,) for kind in KINDS},
    "users": ("users", "user_limits"),
    "servers": ("servers",),
}
"""The attributes of `Config` that an option, or the tables of a kind, decides."""
_AT_START: Final = frozenset(option.name for option in OPTIONS if option.at_start)


@dataclass(frozen=True, slots=True)
class Change:
    """What is to count from now on; it can be sent to another process.

    Attributes:
        config: the options.
        ring: the keys.
        applied: the names of the options and tables that have changed.
        needs_restart: the names of those that have changed, and stay as they were.
    """

    config: Config
    ring: KeyRing
    applied: tuple[str, ...] = ()
    needs_restart: tuple[str, ...] = ()


class Source:
    """The file, environment and command line of one proxy.

    Attributes:
        config: the options that count now, with what the start has made of them.
        ring: the keys that count now.
    """

    def __init__(
        self, read: Callable[[], Config], given: Config, config: Config, ring: KeyRing
    ) -> None:
        """Begin with what was read at the start.

        Args:
            read: reads all of it, or raises ConfigError.
            given: what it gave at the start.
            config: what the start has made of that, such as a port or a directory of its own.
            ring: the keys.
        """
        self._read = read
        self._given = given
        self.config = config
        self.ring = ring

    def look(self) -> Change:
        """Read all of it, and see what has changed.

        Raises:
            ConfigError: all that is wrong.
        """
        new = self._read()
        changed = {
            name
            for name in ATTRIBUTES
            if any(getattr(new, each) != getattr(self._given, each) for each in ATTRIBUTES[name])
        }
        stays = self._stays(new, changed)
        config = self._with(new, changed - stays)
        while problems := list(cross_checks.groups_with_problems(config)):
            more = frozenset().union(*problems) & changed - stays
            if not more:
                raise ConfigError("what has changed makes no sense before a restart")
            stays |= more
            config = self._with(new, changed - stays)
        applied = changed - stays
        ring = make_key_ring(config, (self.config, self.ring))
        build(config, ring)
        names = {
            "client-tls-cert": ring.certificate != self.ring.certificate,
            "client-tls-key": ring.certificate_key != self.ring.certificate_key,
            "rsa-key": ring.rsa_key != self.ring.rsa_key,
            "server-tls-ca": ring.server_ca != self.ring.server_ca,
        }
        applied |= {
            name
            for name, other in names.items()
            if other and getattr(config, ATTRIBUTES[name][0]) is not None
        }
        listeners = self._listeners_that_wait(new)
        return Change(
            config,
            ring,
            _in_order(applied),
            (*_in_order(stays), *(toml_text.header("listeners", str(each)) for each in listeners)),
        )

    def take(self, change: Change) -> None:
        """What has changed counts now."""
        names = [name for name in change.applied if name in ATTRIBUTES]
        attributes = [each for name in names for each in ATTRIBUTES[name]]
        self._given = dataclasses.replace(
            self._given, **{each: getattr(change.config, each) for each in attributes}
        )
        self.config = change.config
        self.ring = change.ring

    def _stays(self, new: Config, changed: set[str]) -> set[str]:
        """What cannot change before the next start."""
        stays = changed & _AT_START
        follows = self.config.failover != "off" or self.config.topology == "group"
        if not follows:  # else it only names one more of the servers, which say who the primary is
            stays |= changed & {"primary"}
        if dict(self._present_listeners(new)) == dict(self.config.listeners):
            changed.discard("listeners")
        return stays

    def _with(self, new: Config, names: set[str]) -> Config:
        attributes = {each: getattr(new, each) for name in names for each in ATTRIBUTES[name]}
        if "listeners" in attributes:
            attributes["listeners"] = self._present_listeners(new)
        return dataclasses.replace(self.config, **attributes)

    def _present_listeners(self, new: Config) -> Table[Address]:
        """The tables of the listeners that are there: no other is opened, and none is closed."""
        waiting = self._listeners_that_wait(new)
        found: dict[Address, Adjustment] = {}
        for address in dict.fromkeys((*self.config.listeners, *new.listeners)):
            tables = self.config.listeners if address in waiting else new.listeners
            if address in tables:
                found[address] = tables[address]
        return Table(found)

    def _listeners_that_wait(self, new: Config) -> list[Address]:
        """Those that only a start opens, or closes."""
        listen = self._given.listen  # it is open in any case
        before, after = self._given.listeners, new.listeners
        return [
            address
            for address in dict.fromkeys((*before, *after))
            if address != listen and (address in before) is not (address in after)
        ]


def _in_order(names: set[str]) -> tuple[str, ...]:
    """In the order in which the documentation has them."""
    return tuple(name for name in ATTRIBUTES if name in names)
