"""The rules of a single statement: from its attributes, or its comment to Tidegate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.client.session_rules import PREFIX, adjustment_of
from routing.consistency.adjustment import NO_ADJUSTMENT, SettingError
from routing.consistency.rules import StatementRules
from routing.sql.tidegate_statement import WrongOwn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from protocol.parameter import QueryAttribute
    from routing.consistency.adjustment import Adjustment
    from routing.consistency.rules import Rules
    from routing.sql.statement import Statement


def own_rules(
    statement: Statement,
    attributes: Sequence[QueryAttribute],
    present: Rules,
) -> StatementRules | None:
    """The rules that a statement asks for; None if they are those of its session.

    Args:
        statement: it.
        attributes: those that came with it.
        present: the rules of its session.

    Raises:
        SettingError: it asks for what is wrong.
    """
    adjustment = _adjustment(statement, attributes)
    if adjustment is NO_ADJUSTMENT:
        return None
    return StatementRules(adjustment.applied_to(present))


def _adjustment(statement: Statement, attributes: Sequence[QueryAttribute]) -> Adjustment:
    adjustment = NO_ADJUSTMENT
    settings = {
        attribute.name: attribute.text or ""
        for attribute in attributes
        if attribute.name.startswith(PREFIX)
    }
    if settings:
        adjustment = adjustment_of(settings)
    if isinstance(statement.directive, WrongOwn):
        raise SettingError(statement.directive.message)
    if statement.directive is not None:
        adjustment = adjustment.and_then(statement.directive)
    return adjustment
