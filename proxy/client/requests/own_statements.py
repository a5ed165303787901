"""Statements to Tidegate itself: the proxy answers them, and no server sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.errors import ServerErrorCode
from proxy.client.requests import token
from proxy.client.session_rules import without
from proxy.observe import show
from proxy.observe.show import LastAnswer, Shown
from proxy.shared.administration.question import Question
from routing.consistency.adjustment import SettingError, read_setting
from routing.consistency.causal_token import TokenError
from routing.consistency.decision import Reason
from routing.consistency.rules import written_budget
from routing.sql.tidegate_statement import (
    ActOwn,
    SelectOwn,
    SetOwn,
    ShowOwn,
    ShowVariables,
    WrongOwn,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from protocol.gtid import GtidSet
    from proxy.client.effects.command_effects import CommandEffects
    from proxy.client.replies.own_answers import OwnAnswers
    from proxy.client.session_context import SessionContext
    from proxy.shared.administration.merged import Merged
    from proxy.shared.administration.question import Subject
    from routing.consistency.adjustment import Adjustment
    from routing.consistency.rules import Rules
    from routing.consistency.scope import ScopeState
    from routing.request.command import Command
    from routing.request.outcome import CommandOutcome
    from routing.sql.tidegate_statement import OwnAssignment, OwnStatement, Topic

    Table = tuple[Sequence[str], Sequence[Sequence[str | None]]]
    """Names of columns, and rows."""

_VALUES: Final[dict[str, Callable[[Rules], str]]] = {
    "consistency": lambda rules: rules.consistency,
    "scope": lambda rules: rules.scope.value,
    "wait_budget": lambda rules: written_budget(rules.budget),
    "on_timeout": lambda rules: rules.on_timeout.value,
    "application": lambda rules: rules.application,
    "transaction_reads": lambda rules: rules.transaction_reads.value,
    "on_split_conflict": lambda rules: rules.on_split_conflict.value,
}


_SUBJECTS: Final[dict[Topic, Subject]] = {
    "SESSIONS": "sessions",
    "SERVERS": "servers",
    "DIGESTS": "digests",
}
"""Topics about which all workers are asked."""


class _WrongOwnError(Exception):
    """A statement to Tidegate is wrong; the text tells its client why."""


class OwnStatements:
    """Obeys those of one session."""

    def __init__(
        self,
        session: SessionContext,
        command_effects: CommandEffects,
        own_answers: OwnAnswers,
        connection_id: int,
    ) -> None:
        """`connection_id` is what the session's client was given for one."""
        self._shared = session.shared
        self._context = session
        self._command_effects = command_effects
        self._own_answers = own_answers
        self._connection_id = connection_id
        self._last_answer: LastAnswer | None = None

    def follows(self, command: Command, outcome: CommandOutcome) -> None:
        """The next statement follows this command, and may ask about it."""
        if outcome.reason is not None and outcome.reason is not Reason.PROXY:
            self._last_answer = LastAnswer.of(command, outcome)

    def asks_primary(self, command: Command) -> bool:
        """Whether only the primary can say what the bearer of its token must see."""
        own_statement = _asked(command)
        if not isinstance(own_statement, SelectOwn) or all(
            name != "token" for name, _ in own_statement.columns
        ):
            return False
        return token.needs_probe(
            self._scope, self._context.state.rules.level, self._shared.topology.term
        )

    def question(self, command: Command) -> Question | None:
        """What all workers are to be asked; None if it is none of that, or not allowed."""
        own_statement = _asked(command)
        user = self._context.state.user
        is_admin = user in self._shared.config.admins
        if isinstance(own_statement, ActOwn) and is_admin:
            return Question(own_statement.action, server=own_statement.server)
        if isinstance(own_statement, ShowOwn):
            subject = _SUBJECTS.get(own_statement.topic)
            if subject == "sessions":  # as SHOW PROCESSLIST, everybody sees the own ones
                return Question(subject, user=None if is_admin else user)
            if subject is not None and (is_admin or subject == "servers"):
                return Question(subject)
        return None

    def show(self, command: Command, question: Question, found: Merged) -> None:
        """Tell the client what the workers have answered."""
        if found.refusal:
            code = ServerErrorCode.ER_UNKNOWN_ERROR
            self._own_answers.refuse(code, f"Tidegate: {found.refusal}", Reason.PROXY)
            return
        self._context.state.diagnostics.proxy_answered(-1)
        self._own_answers.table(found.columns, found.texts(question.subject))

    def obey(self, command: Command, probed: GtidSet | None) -> None:
        """Do what it says and tell the client, or only tell it what is wrong.

        Args:
            command: the statement.
            probed: what the primary has, if it was asked.
        """
        own_statement = _asked(command)
        if isinstance(own_statement, ActOwn) or (
            isinstance(own_statement, ShowOwn) and own_statement.topic in _SUBJECTS
        ):
            self._own_answers.refuse(
                ServerErrorCode.ER_SPECIFIC_ACCESS_DENIED_ERROR,
                "Access denied; you need to be named in Tidegate's option admins for this"
                " operation",
                Reason.PROXY,
            )
            return
        try:
            table = self._execute(command, probed)
        except _WrongOwnError as error:
            code = ServerErrorCode.ER_WRONG_VALUE_FOR_VAR
            self._own_answers.refuse(code, f"Tidegate: {error}", Reason.PROXY)
            return
        self._context.state.diagnostics.proxy_answered(0 if table is None else -1)
        if table is None:
            self._own_answers.ok()
        else:
            self._own_answers.table(*table)

    def _execute(self, command: Command, probed: GtidSet | None) -> Table | None:
        """Do it; what to show for it, or None for an OK.

        Raises:
            _WrongOwnError: something is wrong with it, and nothing was done.
        """
        own_statement = _asked(command)
        try:
            if isinstance(own_statement, SetOwn):
                self._assign(own_statement)
                return None
            if isinstance(own_statement, SelectOwn):
                return self._select(own_statement, probed)
        except (SettingError, TokenError) as error:
            raise _WrongOwnError(str(error)) from error
        if isinstance(own_statement, WrongOwn):
            raise _WrongOwnError(own_statement.message)
        if isinstance(own_statement, ShowOwn | ShowVariables):
            return self._show(own_statement)
        return None

    @property
    def _scope(self) -> ScopeState:
        """The scope of the session's reads."""
        state, shared = self._context.state, self._shared
        return state.reading(state.rules, shared.topology.term, shared.now())

    def _assign(self, own_statement: SetOwn) -> None:
        """Apply settings and tokens: all, or none."""
        context, shared = self._context, self._shared
        chosen = context.rules.chosen
        tokens: list[str] = []
        for assignment in own_statement.assignments:
            if assignment.name == "token":
                tokens.append(assignment.value or "")
            else:
                chosen = _chosen(chosen, assignment)
        verified = [token.required_by_token(text, shared.config) for text in tokens]
        if chosen != context.rules.chosen:
            self._command_effects.adjust(chosen)
        for gtids in verified:
            token.take(gtids, context.state, self._scope, shared.topology.primary, shared.now())

    def _select(self, own_statement: SelectOwn, probed: GtidSet | None) -> Table:
        state, config = self._context.state, self._shared.config
        rules = state.rules
        row = [
            token.token_of(self._scope, rules.level, probed, config)
            if name == "token"
            else _VALUES[name](rules)
            for name, _ in own_statement.columns
        ]
        return [label for _, label in own_statement.columns], [row]

    def _show(self, own_statement: ShowOwn | ShowVariables) -> Table:
        if isinstance(own_statement, ShowOwn):
            return show.topic(self._session(), own_statement.topic)
        rules = self._context.state.rules
        names = [name for name in own_statement.names if name in _VALUES]
        return ("Variable_name", "Value"), [
            (f"tidegate_{name}", _VALUES[name](rules)) for name in names
        ]

    def _session(self) -> Shown:
        """What SHOW TIDEGATE shows of it."""
        context, shared = self._context, self._shared
        return Shown(
            session_id=context.session_id,
            connection_id=self._connection_id,
            state=context.state,
            topology=shared.topology,
            now=shared.now(),
            last_answer=self._last_answer,
            views=context.views.text,
            prepared=len(context.prepared),
            cursors=context.prepared.cursors,
        )


def _asked(command: Command) -> OwnStatement | None:
    return None if command.statement is None else command.statement.own


def _chosen(chosen: Adjustment, assignment: OwnAssignment) -> Adjustment:
    if assignment.value is None:
        return without(chosen, assignment.name)
    return chosen.and_then(read_setting(assignment.name, assignment.value))
