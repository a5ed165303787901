"""PREPARE, EXECUTE and DEALLOCATE PREPARE by text: EXECUTE has the effects of what it executes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.client.requests.commands.command_context import CommandContext
    from routing.sql.statement import Statement
    from routing.sql.text_prepared import TextPrepared


def resolve(context: CommandContext, statement: Statement, prepared: TextPrepared) -> Statement:
    """The statement with the effects of what it executes, or with what it prepares."""
    known = context.state.text_prepared
    if prepared.verb == "several":
        known.clear()
        return statement
    if prepared.verb == "execute":
        inner = known.get(prepared.name)
        if inner is None:
            return statement
        return _executing(statement, context.views.classify(inner))
    # Also a PREPARE that fails removes the statement that had the name.
    if prepared.name:
        known.remove(prepared.name)
    else:
        known.clear()
    text = prepared.text
    if prepared.variable:
        text = _value(context, prepared.variable)
    if prepared.verb == "deallocate" or text is None or not prepared.name:
        return statement
    inner = context.classifier.classify(text.encode(), context.state.lexer_modes.flags)
    return replace(statement, prepares=inner.prepared_in(context.state.schema))


def _value(context: CommandContext, variable: str) -> str | None:
    """The string in a user variable, if its value is known."""
    state = context.state
    literal = state.user_variables.value(variable)
    if not literal or literal[0] not in "'\"":
        return None
    # The literal is read as if it stood in the statement.
    sql = f"PREPARE s FROM {literal}".encode("utf-8", "surrogateescape")
    prepared = context.classifier.classify(sql, state.lexer_modes.flags).text_prepared
    return None if prepared is None else prepared.text


def _executing(statement: Statement, inner: Statement) -> Statement:
    """An EXECUTE of a known statement; statements prepared by text all run on the primary."""
    inner = inner.kept_prepared()
    return replace(inner, digest=statement.digest, directive=statement.directive)
