"""A client's command, as it came and as it was interpreted (its `CommandOutcome` is apart)."""

from typing import Final

from protocol.constants import Command as Code
from protocol.response_stream import FETCHED, FIELDS, PREPARED, RESULTS, SIMPLE, STRING
from routing.consistency.rules import Rules, StatementRules
from routing.session.prepared import PreparedStatement
from routing.sql.statement import NOT_PLAIN, Statement, StatementClass

# Looked up once.
_QUERY: Final = Code.COM_QUERY
_PREPARE: Final = Code.COM_STMT_PREPARE
_EXECUTE: Final = Code.COM_STMT_EXECUTE
_RESULTS: Final = RESULTS
_READ: Final = StatementClass.READ


_SHAPES: Final = {
    Code.COM_STMT_PREPARE: PREPARED,
    Code.COM_FIELD_LIST: FIELDS,
    Code.COM_STMT_FETCH: FETCHED,
    Code.COM_STATISTICS: STRING,
}
"""Of the answers to commands that have neither results nor a mere OK."""


def _shape(code: Code) -> int:
    return _SHAPES.get(code, SIMPLE)


class Command:
    """A command: made once, from a packet, and never changed.

    Attributes:
        code: its first payload byte.
        shape: of its answer (`protocol.response_stream`), which its code gives.
        rules: what its reads ask for.
        adjusted: `rules` are its own (`StatementRules`), not its session's.
        packet: as it came, header and all; empty if it is passed on in parts.
        statement: the classified statement, if it is one.
        may_write: it may change data.
        prepared: the prepared statement that it is about, and that was there before.
        prepares: the statement that it prepares, if that succeeds.
        arrived_us: when it had arrived, UTC us.
        is_query: it is a COM_QUERY.
        is_read: consistency is about it.
        is_plain: it is a plain statement (`Statement.plain`), in one packet.
        text: bytes that hold the statement's text, if it is known.
    """

    def __init__(
        self,
        code: Code,
        rules: Rules,
        packet: bytes = b"",
        statement: Statement | None = None,
        may_write: bool = False,
        prepared: PreparedStatement | None = None,
        arrived_us: int = 0,
    ) -> None:
        """Of a code; `prepared` is what a COM_STMT_PREPARE prepares, or what others are about."""
        is_query = code is _QUERY
        prepares = code is _PREPARE
        adjusted = isinstance(rules, StatementRules)
        self.code: Final = code
        self.shape: Final = _RESULTS if is_query or code is _EXECUTE else _shape(code)
        self.rules: Final = rules
        self.adjusted: Final = adjusted
        self.packet: Final = packet
        self.statement: Final = statement
        self.may_write: Final = may_write
        self.prepared: Final = None if prepares else prepared
        self.prepares: Final = prepared if prepares else None
        self.arrived_us: Final = arrived_us
        self.is_query: Final = is_query
        self.is_read: Final = statement is not None and statement.kind is _READ
        self.is_plain: Final = (
            statement is not None and statement.plain != NOT_PLAIN and is_query and not adjusted
        )
        self.text: Final = packet if prepared is None or prepares else prepared.text

    def __repr__(self) -> str:
        """What it is, without its text, which may hold what nobody else is to see."""
        words = [self.code.name]
        statement = self.statement
        if statement is not None:
            words.append(f"{statement.kind.value} ({statement.reason.value})")
            words.append(f"digest {statement.digest}")
        words += ["may write"] if self.may_write else []
        words += [f"prepared statement {self.prepared.number}"] if self.prepared is not None else []
        words += ["with rules of its own"] if self.adjusted else []
        return f"<Command: {', '.join(words)}>"
