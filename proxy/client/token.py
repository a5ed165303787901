"""A session's required set, given to the application and taken back, signed (`causal_token`)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from routing.consistency.causal_token import TokenError, TokenKeys, sign, verify
from routing.consistency.decision import Level
from routing.consistency.rules import REMEMBERING, SettingError

if TYPE_CHECKING:
    from protocol.gtid import GtidSet
    from proxy.client.session import ClientSession
    from routing.consistency.scope import ScopeState

_ASKING: Final = (Level.BEST_EFFORT, Level.BOUNDED_STALENESS, Level.STRONG)
"""Levels whose scopes do not hold what their reads may have seen."""


def needs_probe(session: ClientSession) -> bool:
    """Whether only the primary can say what the bearer of the session's token must see."""
    scope = _scope(session)
    level = session.state.rules.level
    if level in _ASKING or scope.term != session.topology.term or not scope.is_known(level):
        return True
    return level in REMEMBERING and scope.seen  # which server showed it, no token can carry


def signed(session: ClientSession) -> str:
    """The token of what the session's reads must see.

    Raises:
        SettingError: the proxy has no key.
        TokenError: the set is too long, or lacks what was written and has no name.
    """
    if _scope(session).unlogged:
        raise TokenError(
            "something was written without a GTID (sql_log_bin = 0), so no token can stand for it;"
            " its reader must come to the primary"
        )
    probed = session.read.probed
    required = _scope(session).required(session.state.rules.level)
    if probed is not None:
        required |= probed
    expires = int(time.time() + session.config.token_lifetime)
    return sign(required, expires, _keys(session))


def verified(session: ClientSession, text: str) -> GtidSet:
    """What a token says that its bearer must see.

    Raises:
        SettingError: the proxy has no key.
        TokenError: it is forged, malformed, too long or expired.
    """
    return verify(text, int(time.time()), _keys(session))


def take(session: ClientSession, gtids: GtidSet) -> None:
    """Let the session's reads see this, too.

    Another proxy's primary may have acknowledged it. Where this one's is not known to have it, the
    next read asks, so that nobody waits for what is lost.
    """
    state = session.state
    primary = session.topology.primary
    for scope in {id(scope): scope for scope in (state.own_scope, _scope(session))}.values():
        scope.wrote(gtids, primary.applied, session.now())
        if not gtids <= primary.applied:
            scope.doubt()


def _scope(session: ClientSession) -> ScopeState:
    state = session.state
    return state.reading(state.rules, session.topology.term, session.now())


def _keys(session: ClientSession) -> TokenKeys:
    keys = session.config.token_keys
    if not keys:
        raise SettingError("there are no tokens without a key; set token-key-file")
    return TokenKeys(keys)
