"""The rules that one statement has of its own: by its attributes, or its comment to Tidegate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.errors import ServerErrorCode
from proxy.client.session_rules import PREFIX, adjustment_of
from routing.consistency.decision import Reason
from routing.consistency.rules import NO_ADJUSTMENT, SettingError
from routing.sql.own_statement import WrongOwn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from protocol.parameter import QueryAttribute
    from proxy.client.session import ClientSession
    from routing.consistency.rules import Adjustment
    from routing.sql.statement import Statement


def adjust(
    session: ClientSession, statement: Statement, attributes: Sequence[QueryAttribute]
) -> bool:
    """Let the request have rules of its own; False if they are wrong, and it was refused."""
    try:
        adjustment = _adjustment(statement, attributes)
        if adjustment is not NO_ADJUSTMENT:
            rules = adjustment.applied_to(session.state.rules)
            session.rules.check(rules)
            session.request.rules = rules
    except SettingError as error:
        session.replies.refuse(
            ServerErrorCode.ER_WRONG_VALUE_FOR_VAR, f"Tidegate: {error}", reason=Reason.PROXY
        )
        return False
    return True


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
