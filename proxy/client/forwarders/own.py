"""Statements to Tidegate itself: the proxy answers them, and no server sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.constants import Command as Code
from protocol.errors import ServerErrorCode
from protocol.response_stream import RESULTS
from protocol.resultset import ColumnDefinition41, text_resultset
from proxy.client import token
from proxy.client.session_rules import without
from proxy.observe import show
from routing.consistency.causal_token import TokenError
from routing.consistency.decision import Reason
from routing.consistency.rules import SettingError, read_setting
from routing.sql.own_statement import (
    SelectOwn,
    SetOwn,
    ShowOwn,
    ShowVariables,
    WrongOwn,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy.client.session import ClientSession
    from routing.consistency.rules import Adjustment, Rules
    from routing.sql.own_statement import OwnAssignment
    from routing.sql.statement import Statement

_VALUES: Final[dict[str, Callable[[Rules], str]]] = {
    "consistency": lambda rules: rules.consistency,
    "scope": lambda rules: rules.scope.value,
    "wait_budget": lambda rules: f"{rules.wait_budget * 1000:g}ms",
    "on_timeout": lambda rules: rules.on_timeout.value,
    "application": lambda rules: rules.application,
}


def forward_own(session: ClientSession, packet: bytes, statement: Statement) -> None:
    """Obey a statement to Tidegate, or say what is wrong with it."""
    session.replies.keep_last_answer()
    session.begin(Code.COM_QUERY, RESULTS, packet, statement)
    own = statement.own
    if isinstance(own, SetOwn):
        _set(session, own.assignments)
    elif isinstance(own, SelectOwn):
        _select(session, own)
    elif isinstance(own, ShowOwn):
        columns, rows = show.topic(session.shown(), own.topic)
        _answer(session, columns, rows)
    elif isinstance(own, ShowVariables):
        values = _VALUES
        names = [name for name in own.names if name in values]
        rules = session.state.rules
        rows = [(f"tidegate_{name}", values[name](rules)) for name in names]
        _answer(session, ("Variable_name", "Value"), rows)
    elif isinstance(own, WrongOwn):
        _wrong(session, own.message)


def _wrong(session: ClientSession, message: str) -> None:
    session.replies.refuse(
        ServerErrorCode.ER_WRONG_VALUE_FOR_VAR, f"Tidegate: {message}", reason=Reason.PROXY
    )


def _set(session: ClientSession, assignments: Sequence[OwnAssignment]) -> None:
    """All of them, or none."""
    chosen = session.rules.chosen
    tokens: list[str] = []
    try:
        for assignment in assignments:
            if assignment.name == "token":
                tokens.append(assignment.value or "")
            else:
                chosen = _chosen(chosen, assignment)
        rules = chosen.applied_to(session.rules.initial(session.state.schema))
        session.rules.check(rules)
        required = [token.verified(text, session.config) for text in tokens]
    except (SettingError, TokenError) as error:
        _wrong(session, str(error))
        return
    if chosen != session.rules.chosen:
        session.adjust(chosen)
    for gtids in required:
        scope = session.reading
        token.take(gtids, session.state, scope, session.topology.primary, session.now())
    session.replies.answer(session.replies.ok())


def _chosen(chosen: Adjustment, assignment: OwnAssignment) -> Adjustment:
    if assignment.value is None:
        return without(chosen, assignment.name)
    return chosen.and_then(read_setting(assignment.name, assignment.value))


def _select(session: ClientSession, own: SelectOwn) -> None:
    names = [name for name, _ in own.columns]
    if "token" in names and _needs_probe(session):
        session.reads.ask(lambda: _selected(session, own))
    else:
        _selected(session, own)


def _selected(session: ClientSession, own: SelectOwn) -> None:
    rules = session.state.rules
    row: list[str] = []
    try:
        for name, _ in own.columns:
            row.append(_token(session) if name == "token" else _VALUES[name](rules))
    except (SettingError, TokenError) as error:
        _wrong(session, str(error))
        return
    _answer(session, [label for _, label in own.columns], [row])


def _needs_probe(session: ClientSession) -> bool:
    level = session.state.rules.level
    return token.needs_probe(session.reading, level, session.topology.term)


def _token(session: ClientSession) -> str:
    level = session.state.rules.level
    return token.signed(session.reading, level, session.read.probed, session.config)


def _answer(
    session: ClientSession, columns: Sequence[str], rows: Sequence[Sequence[str | None]]
) -> None:
    connection = session.connection
    definitions = [
        ColumnDefinition41(
            name=name,
            column_length=4 * max([1, *(len(row[index] or "") for row in rows)]),
        )
        for index, name in enumerate(columns)
    ]
    encoded = [
        [None if value is None else value.encode("utf-8", "surrogateescape") for value in row]
        for row in rows
    ]
    session.replies.answer(
        text_resultset(definitions, encoded, connection.capabilities, session.replies.status)
    )
