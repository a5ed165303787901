"""A statement's class: determined by its tokens, and always on the safe side.

What cannot be shown to be a pure read of replicated data is not a READ. What the server would
refuse may get any class, for it executes nothing. The rules are in docs/classification.md.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from hashlib import blake2b
from operator import or_
from typing import Final

from routing.consistency.adjustment import Adjustment
from routing.sql import diagnostics, grammar
from routing.sql.directive import directive
from routing.sql.identifiers import identifiers
from routing.sql.lexer import (
    MODE_ANSI_QUOTES,
    MODE_NO_BACKSLASH_ESCAPES,
    Tokens,
    executed_texts,
    lex,
    skeleton,
)
from routing.sql.session_locks import UNKNOWN_HOLD, Act, SessionLock
from routing.sql.table_references import TableNames, table_names
from routing.sql.text_prepared import SEVERAL, TextPrepared, text_prepared
from routing.sql.tidegate_statement import (
    AMBIGUOUS,
    NOT_ALONE,
    OwnStatement,
    WrongOwn,
    mentions_tidegate,
    own_statement,
)
from routing.sql.token_patterns import BLANK
from routing.sql.verdict import Assignment, StatementClass, StatementReason, Verdict

__all__ = [
    "Assignment",
    "Statement",
    "StatementClass",
    "StatementReason",
    "classify",
    "classify_text",
    "may_read_tables",
]

NOT_PLAIN: Final = 0
PLAIN_READ: Final = 1
PLAIN_WRITE: Final = 2
"""Of `Statement.plain`: numbers, which compiled code compares in one step."""

MAX_TEXT: Final = 1 << 16
"""Longer texts, in bytes, count as writes: to classify them would take longer than a
millisecond."""
MAX_SKELETON: Final = 1 << 14
"""So do texts of which more than this is left without literals and comments."""

_NAME: Final = 128
"""Bytes that a name in a statement takes."""

_OF_TABLES: Final = re.compile(rb"FROM|\bTABLE\b|EXECUTE", re.IGNORECASE)


def may_read_tables(text: bytes) -> bool:
    """Whether a statement about the session may read tables, too: empty is a text not known.

    The text of an EXECUTE is another one.
    """
    return not text or _OF_TABLES.search(text) is not None


@dataclass(frozen=True, slots=True)
class Statement:
    """What is known of a text that a client sends as one command.

    Attributes:
        kind: its class.
        reason: what gave it that class.
        may_write: it may commit something, if only by ending an open transaction.
        digest: 16 hex digits; the same for texts that differ in literals, comments, blanks or the
            case of words only. A list of literals counts as one.
        assignments: what it sets, in order.
        holds: the connection-bound state that it takes or releases, in order.
        multi: something follows a semicolon; `kind` is then WRITE.
        touches_tracking: it sets session_track_gtids.
        kill_target: the connection that it kills, if it is a KILL with a plain number.
        user_variables: of a READ, the user variables that it mentions, in lower case.
        asks: the parts of the diagnostics area that it asks about (`routing.sql.diagnostics`).
        shows_tracking: it shows the session's session_track_… variables, and writes nothing.
        identifiers: names in it that may be those of views (`routing.sql.identifiers`).
        changes_views: it may make, rename or uncover a view.
        is_current: what it reads of tables it locks, so that it reads the newest state, whatever
            its transaction's snapshot shows.
        leaves: what it leaves for the next one to ask, if it ends well (likewise).
        text_prepared: what it does with statements that are prepared by text.
        prepares: the statement that it prepares by text, if it succeeds, and if that is known.
        names_id: a name in it is one of those that show the connection's id.
        names_user_variables: it names a user variable, outside of literals.
        own: what it asks Tidegate itself, if it does; its class is then PROXY.
        directive: the settings in a comment to Tidegate at the beginning of the text.
        tables: the names in it that may be those of tables; None if it may read anything else.
        plain: PLAIN_READ or PLAIN_WRITE if it only reads replicated data, or only changes data, and
            nothing else has to be considered; else NOT_PLAIN.
    """

    kind: StatementClass
    reason: StatementReason
    may_write: bool
    digest: str
    assignments: tuple[Assignment, ...] = ()
    holds: tuple[SessionLock, ...] = ()
    multi: bool = False
    touches_tracking: bool = False
    kill_target: int | None = None
    user_variables: tuple[str, ...] = ()
    asks: int = 0
    shows_tracking: bool = False
    identifiers: frozenset[bytes] = frozenset()
    changes_views: bool = False
    is_current: bool = False
    leaves: int = diagnostics.PARTS
    text_prepared: TextPrepared | None = None
    prepares: "Statement | None" = None
    names_id: bool = False
    names_user_variables: bool = False
    own: OwnStatement | None = None
    directive: Adjustment | WrongOwn | None = None
    tables: TableNames | None = None
    plain: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """See whether it is plain."""
        object.__setattr__(self, "plain", self._found_plain())

    def _found_plain(self) -> int:
        more = (
            *(self.assignments, self.holds, self.multi, self.touches_tracking),
            *(self.kill_target is not None, self.user_variables, self.asks),
            *(self.shows_tracking, self.changes_views, self.text_prepared, self.own),
            self.directive,
        )
        if any(more):
            return NOT_PLAIN
        if self.kind is StatementClass.READ and self.reason is StatementReason.NOTHING:
            return PLAIN_READ
        if self.kind is StatementClass.WRITE and self.reason is StatementReason.DATA:
            return NOT_PLAIN if self.identifiers else PLAIN_WRITE
        return NOT_PLAIN

    def prepared_in(self, schema: str) -> "Statement":
        """The same, prepared in a default schema, of which the locks are that it takes."""
        if not any(hold.name.startswith(".") for hold in self.holds):
            return self
        return replace(self, holds=tuple([hold.named_in(schema) for hold in self.holds]))

    def reading_in(self, schema: str) -> "Statement":
        """The same, reading from tables of a default schema, whichever is the default later."""
        if self.tables is None:
            return self
        return replace(self, tables=self.tables.within(schema))

    def kept_prepared(self) -> "Statement":
        """The same, if it is a read that was prepared on the primary, and runs nowhere else."""
        if self.kind not in (StatementClass.READ, StatementClass.DIAGNOSTIC):
            return self
        return replace(self, kind=StatementClass.SESSION, reason=StatementReason.PREPARED_STATEMENT)

    @property
    def size(self) -> int:
        """Bytes that are kept of what its text names, an estimate for names of usual length."""
        names = len(self.identifiers) + len(self.user_variables) + len(self.holds)
        names += 0 if self.tables is None else len(self.tables.names)
        size = _NAME * (names + len(self.assignments))
        return size if self.prepares is None else size + self.prepares.size

    @property
    def pins(self) -> bool:
        """Whether it may leave something on its connection that no other can be given."""
        return any(hold.act is Act.ACQUIRE for hold in self.holds)

    @property
    def begins(self) -> bool:
        """Whether it is BEGIN or START TRANSACTION, which give back locked tables."""
        gives = any(hold.act is Act.GIVE_ALL for hold in self.holds)
        return gives and self.kind is StatementClass.TRANSACTION

    @property
    def is_one_lock(self) -> bool:
        """Whether its only value tells if it took or released a named lock."""
        holds = self.holds
        return bool(holds) and holds[0].once and not self.multi

    @property
    def calls_programs(self) -> bool:
        """Whether it may run unclassified statements, and does not write itself."""
        return self.reason in _CALLING or self.reason is StatementReason.MULTIPLE

    @property
    def may_run_programs(self) -> bool:
        """Whether it may run stored functions, procedures or triggers."""
        return self.reason not in _RUNS_NONE and (
            self.kind is StatementClass.WRITE or self.reason in _CALLING
        )


_CALLING: Final = (
    StatementReason.PROCEDURE,
    StatementReason.EXECUTED,
    StatementReason.UNKNOWN_FUNCTION,
    StatementReason.UNKNOWN_STATEMENT,
    StatementReason.UNREADABLE,
    StatementReason.TOO_LONG,
)
_RUNS_NONE: Final = (
    StatementReason.SEVERAL,
    StatementReason.LOCKING_READ,
    StatementReason.FILE,
    StatementReason.ACCOUNT,
    StatementReason.ADMINISTRATION,
    StatementReason.TEMPORARY_TABLE,
)
"""Writes that run no stored function and no trigger."""

_SEVERITY: Final = {
    kind: rank
    for rank, kind in enumerate(
        (
            StatementClass.READ,
            StatementClass.DIAGNOSTIC,
            StatementClass.SESSION,
            StatementClass.PIN,
            StatementClass.TRANSACTION,
            StatementClass.WRITE,
        )
    )
}
_PROGRAMS: Final = frozenset({b"PROCEDURE", b"FUNCTION", b"TRIGGER", b"EVENT"})
_BLOCKS: Final = frozenset({b"BEGIN", b"CASE", b"IF", b"LOOP", b"REPEAT", b"WHILE"})
_BEFORE_STATEMENT: Final = frozenset(
    {b";", b":", b"BEGIN", b"THEN", b"ELSE", b"DO", b"LOOP", b"REPEAT"}
)

_OF_TABLES_ALONE: Final = (StatementReason.NOTHING, StatementReason.USER_VARIABLE)

_DML: Final = frozenset(b"INSERT UPDATE DELETE REPLACE LOAD".split())
_QUERIES: Final = frozenset(b"SELECT TABLE VALUES".split())
_FIRST_WORD: Final = re.compile(rb"%b[(\s]*+([a-z]*+)" % BLANK, re.IGNORECASE)
_PINNING_FIRST: Final = frozenset(b"execute flush handler lock set xa".split())
_NO_NAMES: Final[frozenset[bytes]] = frozenset()
_VIEWS: Final = (b"view", b"rename", b"grant", b"revoke", b"role", b"user")
_LOCK_FUNCTIONS: Final = (b"get_lock", b"service_get_")
_ID_NAMES: Final = (b"CONNECTION_ID", b"PSEUDO_THREAD_ID")
_SINGLE: Final = frozenset(b"insert replace update delete select with values table".split())
"""First words of statements that read and change data, and whatever functions do."""


def names_id(text: bytes) -> bool:
    """Whether a text has a name that shows the connection's id."""
    text = text.upper()
    return any(text.find(name) >= 0 for name in _ID_NAMES)


def classify(
    sql: bytes, *, ansi_quotes: bool = False, no_backslash_escapes: bool = False
) -> Statement:
    """Classify a text without knowing the character set that it is in.

    Args:
        sql: what a client sends as COM_QUERY or COM_STMT_PREPARE.
        ansi_quotes: the session's sql_mode has ANSI_QUOTES.
        no_backslash_escapes: the session's sql_mode has NO_BACKSLASH_ESCAPES.
    """
    flags = MODE_ANSI_QUOTES if ansi_quotes else 0
    flags |= MODE_NO_BACKSLASH_ESCAPES if no_backslash_escapes else 0
    return classify_text(sql, flags)


def classify_text(sql: bytes, mode_flags: int) -> Statement:
    """Classify a text; never raises, whatever the bytes are.

    Args:
        sql: what a client sends as COM_QUERY or COM_STMT_PREPARE.
        mode_flags: a sum of `routing.sql.lexer.MODE_…`.
    """
    # A longer text is none to Tidegate; it may begin with a comment that is.
    ours = mentions_tidegate(sql[:MAX_TEXT])
    statement = _classified(sql, mode_flags, ours)
    own_statement = directive(sql) if ours else None
    return statement if own_statement is None else replace(statement, directive=own_statement)


def _classified(sql: bytes, mode_flags: int, ours: bool) -> Statement:
    """The statement without its directive; `ours` if it may address Tidegate."""
    if len(sql) > MAX_TEXT:
        return _unseen(sql, StatementReason.TOO_LONG)
    if len(sql) > MAX_SKELETON:
        rest = skeleton(sql, mode_flags)
        if rest is not None and len(rest) > MAX_SKELETON:
            return _unseen(sql, StatementReason.TOO_LONG)
    tokens = lex(sql, mode_flags)
    if tokens is not None:
        return _statement(tokens, mode_flags, ours)
    texts = executed_texts(sql, mode_flags) if b"/*!" in sql else None
    if texts is None:
        return _unseen(sql, StatementReason.UNREADABLE)
    worst: Statement | None = None
    for text in texts:
        tokens = lex(text, mode_flags)
        if tokens is None:
            return _unseen(sql, StatementReason.UNREADABLE)
        # A server that sees nothing to execute executes nothing.
        if len(tokens):
            other = _statement(tokens, mode_flags, ours)
            worst = other if worst is None else _worse(worst, other)
    return _made(grammar.UNKNOWN, b"") if worst is None else worst


def _statement(tokens: Tokens, mode_flags: int, ours: bool) -> Statement:
    """The statement, or statements, that a text's tokens make."""
    parts = [tokens] if b";" not in tokens.words else _split(tokens)
    if ours:
        for part in parts:
            own = own_statement(part, mode_flags)
            if own is not None:
                if len(parts) > 1:
                    return _own(NOT_ALONE, tokens.normalised())
                return _own(own, part.normalised())
    if len(parts) == 1:
        prepared = text_prepared(parts[0], mode_flags)
        verdict = grammar.verdict(parts[0])
        return _made(
            verdict,
            parts[0].normalised(),
            parts,
            prepared,
            changes_views=_changes_views(parts[0], verdict),
        )
    verdicts = [grammar.verdict(part) for part in parts]
    writes = any(
        verdict.kind is StatementClass.WRITE or verdict.reason is StatementReason.EXECUTED
        for verdict in verdicts
    )
    together = Verdict(
        StatementClass.WRITE,
        StatementReason.MULTIPLE if writes else StatementReason.SEVERAL,
        may_write=any(verdict.may_write for verdict in verdicts),
        holds=tuple(hold for verdict in verdicts for hold in verdict.holds),
        assignments=tuple(assignment for verdict in verdicts for assignment in verdict.assignments),
        asks=reduce(or_, [verdict.asks for verdict in verdicts]),
        shows_tracking=not writes and any(verdict.shows_tracking for verdict in verdicts),
    )
    several = any(text_prepared(part, mode_flags) is not None for part in parts)
    prepared = SEVERAL if several else None
    changes = any(map(_changes_views, parts, verdicts))
    return _made(together, tokens.normalised(), parts, prepared, changes_views=changes)


def _may_name_views(verdict: Verdict, prepared: TextPrepared | None) -> bool:
    """Whether the views that a statement names can change its class; a write stays one."""
    return prepared is None and (
        verdict.kind is not StatementClass.WRITE or verdict.reason in _RUNS_NONE
    )


def _changes_views(tokens: Tokens, verdict: Verdict) -> bool:
    if verdict.reason is StatementReason.DEFINITION:
        return b"VIEW" in tokens.words or tokens.words[0] == b"RENAME"
    return verdict.reason is StatementReason.ACCOUNT


def _made(
    verdict: Verdict,
    normalised: bytes,
    parts: Sequence[Tokens] = (),
    prepared: TextPrepared | None = None,
    *,
    changes_views: bool = False,
) -> Statement:
    """The statement of a verdict; `parts` are the statements in its text, if they can be read."""
    assignments = verdict.assignments
    names, leaves = _NO_NAMES, diagnostics.UNKNOWN
    if parts:
        left = [diagnostics.leaves(part) for part in parts]
        leaves = left[0] if len(parts) == 1 else diagnostics.together(left)
        if _may_name_views(verdict, prepared):
            names = names.union(*map(identifiers, parts))
    return Statement(
        kind=verdict.kind,
        reason=verdict.reason,
        may_write=verdict.may_write,
        digest=blake2b(normalised, digest_size=8).hexdigest(),
        assignments=assignments,
        holds=verdict.holds,
        multi=len(parts) > 1,
        touches_tracking=bool(assignments)
        and any(assignment.name == "session_track_gtids" for assignment in assignments),
        kill_target=verdict.kill_target,
        user_variables=verdict.user_variables,
        asks=verdict.asks,
        shows_tracking=verdict.shows_tracking,
        identifiers=names,
        changes_views=changes_views,
        is_current=len(parts) == 1 and _is_current(parts[0], verdict),
        leaves=leaves,
        text_prepared=prepared,
        names_id=names_id(normalised),
        names_user_variables=b"@" in normalised.replace(b"@@", b""),
        tables=table_names(parts[0]) if len(parts) == 1 and _reads_tables(verdict) else None,
    )


def _reads_tables(verdict: Verdict) -> bool:
    """Whether a statement reads nothing but tables, and calls the server's own functions only."""
    return verdict.kind is StatementClass.READ and verdict.reason in _OF_TABLES_ALONE


def _is_current(tokens: Tokens, verdict: Verdict) -> bool:
    """As of `Statement`: DML with all that it calls, and a locking read if nothing in it is apart.

    (docs/mysql-behaviour.md, *Current reads*)
    """
    words = tokens.words
    if verdict.reason is StatementReason.LOCKING_READ:
        queries = sum(word in _QUERIES for word in words)
        return queries == 1 and b"OF" not in words
    return bool(words) and words[0] in _DML


def _own(own: OwnStatement, normalised: bytes) -> Statement:
    digest = blake2b(normalised, digest_size=8).hexdigest()
    return Statement(StatementClass.PROXY, StatementReason.PROXY, False, digest, own=own)


def _worse(first: Statement, second: Statement) -> Statement:
    """The less safe of two readings of a text; `other` gives the digest."""
    if first.own is not None or second.own is not None:
        return (
            second
            if first.own == second.own
            else replace(_own(AMBIGUOUS, b""), digest=second.digest)
        )
    chosen = max((second, first), key=lambda statement: _SEVERITY[statement.kind])
    assignments = second.assignments
    if first.assignments != assignments:
        assignments = first.assignments + assignments
    holds = second.holds
    if first.holds != holds:
        holds = tuple(hold for hold in first.holds + holds if hold.act in (Act.ACQUIRE, Act.BLUR))
    return Statement(
        kind=chosen.kind,
        reason=chosen.reason,
        may_write=first.may_write or second.may_write,
        digest=second.digest,
        assignments=assignments,
        holds=holds,
        multi=first.multi or second.multi,
        touches_tracking=first.touches_tracking or second.touches_tracking,
        kill_target=first.kill_target if first.kill_target == second.kill_target else None,
        user_variables=first.user_variables + second.user_variables,
        asks=first.asks | second.asks,
        identifiers=first.identifiers | second.identifiers,
        changes_views=first.changes_views or second.changes_views,
        is_current=first.is_current and second.is_current,
        leaves=diagnostics.either(first.leaves, second.leaves),
        shows_tracking=chosen.shows_tracking,
        text_prepared=first.text_prepared
        if first.text_prepared == second.text_prepared
        else SEVERAL,
        names_id=first.names_id or second.names_id,
        names_user_variables=first.names_user_variables or second.names_user_variables,
        tables=first.tables if first.tables == second.tables else None,
    )


def _split(tokens: Tokens) -> list[Tokens]:
    """Tokens between semicolons, but for those inside a stored program's body."""
    words = tokens.words
    program = words[0] in (b"CREATE", b"ALTER") and not _PROGRAMS.isdisjoint(words)
    parts: list[Tokens] = []
    depth = 0
    start = 0
    for index, word in enumerate(words):
        if word == b";" and depth <= 0:
            parts.append(tokens.part(start, index))
            start = index + 1
        elif not program:
            continue
        elif word == b"END":
            depth -= 1
        elif word in _BLOCKS and words[index - 1] != b"END":
            expression = word in (b"IF", b"REPEAT") and words[index - 1] not in _BEFORE_STATEMENT
            depth += 0 if expression else 1
    last = tokens.part(start, len(tokens))
    if len(last) or not parts:
        parts.append(last)
    return parts


def _unseen(sql: bytes, reason: StatementReason) -> Statement:
    """The statement for a text not classified in full: it may do what words in it suggest.

    To look for a word takes a search of the whole text. So those that only begin a statement, or
    stand in one that is about the session, are not looked for in a single statement of `_SINGLE`.
    """
    found = _FIRST_WORD.match(sql)
    word = found[1].lower() if found else b""
    multi = sql.find(b";") >= 0
    text = sql.lower()

    def has(*words: bytes) -> bool:
        return any(text.find(word) >= 0 for word in words)  # `in` costs many times that

    pins = has(*_LOCK_FUNCTIONS)
    tracking = views = prepares = False
    if multi or reason is not StatementReason.TOO_LONG or word not in _SINGLE:
        pins = pins or word in _PINNING_FIRST or has(b"temporary")
        tracking = has(b"session_track_gtids")
        views = has(*_VIEWS)
        prepares = has(b"prepare", b"execute")
    return Statement(
        kind=StatementClass.WRITE,
        reason=reason,
        may_write=True,
        digest=blake2b(found[0].lower() if found else b"", digest_size=8).hexdigest(),
        assignments=(Assignment("session", "session_track_gtids", None),) if tracking else (),
        holds=(UNKNOWN_HOLD,) if pins else (),
        multi=multi,
        touches_tracking=tracking,
        changes_views=views,
        leaves=diagnostics.UNKNOWN,
        text_prepared=SEVERAL if prepares else None,
    )
