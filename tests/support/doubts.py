"""Scopes of which nobody knows what they have seen."""

from routing.consistency.scope import ScopeState
from routing.servers.topology import Role, Server


def may_have_seen(scope: ScopeState) -> None:
    """Two servers have shown something in it: the later states of neither bound both."""
    for name in ("one:3306", "another:3306"):
        scope.record_answer(Server(name, Role.REPLICA), 1)
