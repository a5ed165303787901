"""What the port for operators answers: Tidegate's own statements, and what clients ask at first.

No statement goes to a server, so this works while none answers.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from protocol.errors import ServerErrorCode
from proxy.shared.administration.question import Question
from routing.sql.classifier import Classifier
from routing.sql.lexer import MODE_UTF8
from routing.sql.tidegate_statement import ActOwn, ShowOwn, WrongOwn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from proxy.shared.administration.administration import Administration
    from proxy.shared.administration.question import Subject
    from routing.sql.tidegate_statement import Topic

_SUBJECTS: Final[dict[Topic, Subject]] = {
    "SESSIONS": "sessions",
    "SERVERS": "servers",
    "DIGESTS": "digests",
}
_KILL: Final = re.compile(rb"\s*KILL\s+(?:CONNECTION\s+)?([0-9]{1,10})\s*;?\s*", re.IGNORECASE)
_SET: Final = re.compile(
    rb"\s*SET\s+(?:SESSION\s+|@@(?:SESSION\.)?)?"
    rb"(?:NAMES|CHARACTER\s+SET|CHARSET|AUTOCOMMIT|SQL_MODE|CHARACTER_SET_\w+|COLLATION_CONNECTION"
    rb"|SQL_SAFE_UPDATES|SQL_SELECT_LIMIT|MAX_JOIN_SIZE|NET_\w+|WAIT_TIMEOUT)\b[^;]*;?\s*",
    re.IGNORECASE,
)
_SELECT: Final = re.compile(
    r"\s*SELECT\s+([^;'\"`]{1,1000}?)(?:\s+LIMIT\s+[0-9]+)?\s*;?\s*", re.IGNORECASE
)
_EMPTY: Final = re.compile(
    r"\s*SHOW\s+(?:DATABASES|TABLES|WARNINGS|(?:SESSION\s+|GLOBAL\s+)?(?:STATUS|VARIABLES)"
    r"(?:\s+LIKE\s+'[^']*')?)\s*;?\s*",
    re.IGNORECASE,
)
_HELP: Final = (
    "admin-listen takes SHOW TIDEGATE SESSIONS, SERVERS or DIGESTS, TIDEGATE DRAIN SERVER, UNDRAIN"
    " SERVER or RELOAD, and KILL id; other statements go to the port for clients"
)


class Refusal(NamedTuple):
    """An error for the client."""

    code: ServerErrorCode
    message: str


class Shown(NamedTuple):
    """A table for the client; an OK where there are no columns."""

    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str | None]] = ()


OK: Final = Shown()


class AdminStatements:
    """Answers the statements of one operator."""

    def __init__(self, administration: Administration, facts: Mapping[str, str | None]) -> None:
        """`facts` are expressions in lower case that may be selected, and their values."""
        self._administration = administration
        self._facts = facts
        self._classifier = Classifier()

    async def answer(self, sql: bytes) -> Shown | Refusal:
        """The answer to a statement."""
        own = self._classifier.classify(sql, MODE_UTF8).own
        if isinstance(own, WrongOwn):
            return Refusal(ServerErrorCode.ER_WRONG_VALUE_FOR_VAR, f"Tidegate: {own.message}")
        if isinstance(own, ActOwn):
            return await self._ask(Question(own.action, server=own.server))
        if isinstance(own, ShowOwn) and own.topic in _SUBJECTS:
            return await self._ask(Question(_SUBJECTS[own.topic]))
        kill = _KILL.fullmatch(sql)
        if kill is not None:
            return await self._kill(int(kill[1]))
        return self._imitated(sql)

    async def _ask(self, question: Question) -> Shown | Refusal:
        found = await self._administration.ask(question)
        if found.refusal:
            return Refusal(ServerErrorCode.ER_UNKNOWN_ERROR, f"Tidegate: {found.refusal}")
        return Shown(found.columns, found.texts(question.subject))

    async def _kill(self, connection_id: int) -> Shown | Refusal:
        found = await self._administration.ask(Question("kill", connection_id=connection_id))
        if not found.rows:
            why = "; ".join([f"Unknown thread id: {connection_id}", *found.notes])
            return Refusal(ServerErrorCode.ER_NO_SUCH_THREAD, why)
        return OK

    def _imitated(self, sql: bytes) -> Shown | Refusal:
        """What clients send when they connect, and the command `status` of `mysql`."""
        if _SET.fullmatch(sql):
            return OK
        text = sql.decode("utf-8", "replace")
        if _EMPTY.fullmatch(text):
            return Shown(("Name", "Value"))
        match = _SELECT.fullmatch(text)
        if match is not None:
            names = [name.strip() for name in match[1].split(",")]
            if all(name.lower() in self._facts for name in names):
                return Shown(names, [[self._facts[name.lower()] for name in names]])
        return Refusal(ServerErrorCode.ER_NOT_SUPPORTED_YET, f"Tidegate: {_HELP}")
