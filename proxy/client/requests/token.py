"""A session's required set, given to the application and taken back, signed (`causal_token`)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from routing.consistency.adjustment import SettingError
from routing.consistency.causal_token import TokenError, TokenKeys, sign, verify
from routing.consistency.decision import Level
from routing.consistency.rules import REMEMBERING

if TYPE_CHECKING:
    from protocol.gtid import GtidSet
    from proxy.config import Config
    from routing.consistency.scope import ScopeState
    from routing.servers.topology import Server
    from routing.session.session import Session

_ASKING: Final = (Level.BEST_EFFORT, Level.BOUNDED_STALENESS, Level.STRONG)
"""Levels whose scopes do not record what their reads may have seen."""


def needs_probe(scope: ScopeState, level: Level, term: int) -> bool:
    """Whether only the primary can say what the bearer of a token must see.

    Args:
        scope: the one that the session reads in.
        level: at which it reads.
        term: the primary's.
    """
    if level in _ASKING or scope.term != term or not scope.is_known(level):
        return True
    return (
        level in REMEMBERING and scope.is_unbounded
    )  # a token cannot carry which server showed it


def token_of(scope: ScopeState, level: Level, probed: GtidSet | None, config: Config) -> str:
    """The token of what a session's reads must see.

    Args:
        scope: the one that they read in.
        level: theirs.
        probed: what the primary has, if it was asked.
        config: has the keys.

    Raises:
        SettingError: the proxy has no key.
        TokenError: the set is too long, or something was written without a GTID.
    """
    if scope.unlogged:
        raise TokenError(
            "something was written without a GTID (sql_log_bin = 0), so no token can stand for it;"
            " its reader must come to the primary"
        )
    required = scope.required(level)
    if probed is not None:
        required |= probed
    return sign(required, int(time.time() + config.token_lifetime), _keys(config))


def required_by_token(text: str, config: Config) -> GtidSet:
    """What a token says that its bearer must see.

    Raises:
        SettingError: the proxy has no key.
        TokenError: it is forged, malformed, too long or expired.
    """
    return verify(text, int(time.time()), _keys(config))


def take(gtids: GtidSet, state: Session, scope: ScopeState, primary: Server, now: float) -> None:
    """Require this set of the session's reads, in this scope, too.

    Another proxy's primary may have acknowledged it. Where this proxy's primary is not known to
    have it, the next read asks, so that nobody waits for what is lost.
    """
    for scope_state in {
        id(scope_state): scope_state for scope_state in (state.own_scope, scope)
    }.values():
        scope_state.record_write(gtids, primary.applied, now)
        if not gtids <= primary.applied:
            scope_state.doubt()


def _keys(config: Config) -> TokenKeys:
    if not config.token_keys:
        raise SettingError("there are no tokens without a key; set token-key-file")
    return TokenKeys(config.token_keys)
