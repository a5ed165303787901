"""Statements to Tidegate itself: the proxy answers them, and no server sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.client import token
from proxy.client.session_rules import without
from proxy.observe import show
from routing.consistency.rules import read_setting
from routing.sql.own_statement import SelectOwn, ShowOwn, ShowVariables

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from protocol.gtid import GtidSet
    from proxy.client.commands.desk import Desk
    from proxy.observe.show import Shown
    from routing.consistency.rules import Adjustment, Rules
    from routing.consistency.scope import ScopeState
    from routing.sql.own_statement import OwnAssignment, OwnStatement, SetOwn

    Table = tuple[Sequence[str], Sequence[Sequence[str | None]]]

_VALUES: Final[dict[str, Callable[[Rules], str]]] = {
    "consistency": lambda rules: rules.consistency,
    "scope": lambda rules: rules.scope.value,
    "wait_budget": lambda rules: f"{rules.wait_budget * 1000:g}ms",
    "on_timeout": lambda rules: rules.on_timeout.value,
    "application": lambda rules: rules.application,
}


def assigned(desk: Desk, own: SetOwn) -> tuple[Adjustment, list[GtidSet]]:
    """What the client has chosen with it, and what the tokens say that it takes: all, or none.

    Raises:
        SettingError, TokenError: what is wrong.
    """
    chosen = desk.rules.chosen
    tokens: list[str] = []
    for assignment in own.assignments:
        if assignment.name == "token":
            tokens.append(assignment.value or "")
        else:
            chosen = _chosen(chosen, assignment)
    return chosen, [token.verified(text, desk.config) for text in tokens]


def _chosen(chosen: Adjustment, assignment: OwnAssignment) -> Adjustment:
    if assignment.value is None:
        return without(chosen, assignment.name)
    return chosen.and_then(read_setting(assignment.name, assignment.value))


def asks_token(own: OwnStatement) -> bool:
    """Whether it asks for a token."""
    return isinstance(own, SelectOwn) and any(name == "token" for name, _ in own.columns)


def shown(own: ShowOwn | ShowVariables, session: Shown) -> Table:
    """Columns and rows."""
    if isinstance(own, ShowOwn):
        return show.topic(session, own.topic)
    names = [name for name in own.names if name in _VALUES]
    rules = session.state.rules
    return ("Variable_name", "Value"), [
        (f"tidegate_{name}", _VALUES[name](rules)) for name in names
    ]


def selected(desk: Desk, own: SelectOwn, scope: ScopeState, probed: GtidSet | None) -> Table:
    """Columns and the row.

    Args:
        desk: of the session.
        own: the statement.
        scope: the one that its reads read in.
        probed: what the primary has, if it was asked.

    Raises:
        SettingError, TokenError: there is no token.
    """
    rules = desk.state.rules
    row = [
        token.signed(scope, rules.level, probed, desk.config)
        if name == "token"
        else _VALUES[name](rules)
        for name, _ in own.columns
    ]
    return [label for _, label in own.columns], [row]
