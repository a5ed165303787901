"""Where the rules of a session come from, and which source overrides which.

From the weakest: the configuration's default, its table for the listener, for the schema, for the
user; then the client's connection attributes ``tidegate.…``; then what it SET.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from routing.consistency.adjustment import NO_ADJUSTMENT, Adjustment, read_setting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.address import Address
    from proxy.config import Config
    from proxy.live_config import LiveConfig
    from routing.consistency.rules import Rules

PREFIX: Final = "tidegate."
"""Begins the names of connection attributes and query attributes that are settings."""


class SessionRules:
    """The rules of one session: by the configuration that counted when it logged in.

    A later one counts from `renew` on, not before: what the session's connection tracks is made
    for the rules.

    Attributes:
        chosen: what the client SET.
    """

    def __init__(
        self, live: LiveConfig, listener: Address, user: str, attributes: Mapping[str, str]
    ) -> None:
        """Take what is fixed for a login.

        Raises:
            SettingError: a connection attribute is no setting, or has no such value.
        """
        self._live = live
        self._config: Config = live.config
        self._listener = listener
        self._user = user
        self._attributes = adjustment_of(attributes)
        self.chosen = NO_ADJUSTMENT

    def of_user(self, user: str, attributes: Mapping[str, str]) -> SessionRules:
        """The rules of another login over the same client connection.

        Raises:
            SettingError: as at the first login.
        """
        return SessionRules(self._live, self._listener, user, attributes)

    def become(self, other: SessionRules) -> None:
        """Somebody else logged in."""
        self._config = other._config
        self._user = other._user
        self._attributes = other._attributes
        self.chosen = other.chosen

    @property
    def outdated(self) -> bool:
        """Whether there is a later configuration."""
        return self._config is not self._live.config

    def renew(self) -> None:
        """Let the present configuration count."""
        self._config = self._live.config

    @property
    def by_schema(self) -> bool:
        """Whether another schema may mean other rules."""
        return bool(self._config.schemas)

    def initial(self, schema: str) -> Rules:
        """What counts before the client sets anything."""
        rules = self._config.rules_for(self._user, schema, self._listener)
        return self._attributes.applied_to(rules)

    def present(self, schema: str) -> Rules:
        """What counts now."""
        return self.chosen.applied_to(self.initial(schema))


def without(adjustment: Adjustment, name: str) -> Adjustment:
    """The adjustment without one of the settings (`routing.consistency.adjustment.SETTINGS`)."""
    return Adjustment(
        level=None if name == "consistency" else adjustment.level,
        staleness=None if name == "consistency" else adjustment.staleness,
        scope=None if name == "scope" else adjustment.scope,
        wait_budget=None if name == "wait_budget" else adjustment.wait_budget,
        on_timeout=None if name == "on_timeout" else adjustment.on_timeout,
        application=None if name == "application" else adjustment.application,
        transaction_reads=None if name == "transaction_reads" else adjustment.transaction_reads,
        on_split_conflict=None if name == "on_split_conflict" else adjustment.on_split_conflict,
    )


def adjustment_of(attributes: Mapping[str, str]) -> Adjustment:
    """The settings among attributes.

    Raises:
        SettingError: one is no setting, or has no such value.
    """
    adjustment = NO_ADJUSTMENT
    for name, value in attributes.items():
        if name.startswith(PREFIX):
            adjustment = adjustment.and_then(read_setting(name.removeprefix(PREFIX), value))
    return adjustment
