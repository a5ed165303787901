"""Classification that remembers: most statements come again, with the same or other literals."""

from typing import Final

from routing.sql.directive import directive_comment
from routing.sql.lexer import MODES, skeleton
from routing.sql.own_statement import mentions_tidegate
from routing.sql.statement import MAX_TEXT, Statement, Touch, classify_text
from routing.sql.token_patterns import BEFORE_NUMBER

MAX_KEY: Final = 1024
"""Longer texts, and longer skeletons, are not kept. Bytes."""
GENERATION: Final = 2048
"""Entries in each half of a cache."""
_LITERAL: Final = (
    Touch.KILL,
    Touch.UNREADABLE,
    Touch.PROXY,
    Touch.PREPARED_STATEMENT,
    Touch.EXECUTED,
    Touch.STATUS,
)
"""Reasons of statements that are not what others of their skeleton are."""
_ZERO: Final = 0x30
_NINE: Final = 0x39


class _Cache:
    """A bounded dict in two generations: what was not asked for in the last one is forgotten."""

    __slots__ = ("_old", "young")

    def __init__(self) -> None:
        self.young: dict[bytes, Statement] = {}
        self._old: dict[bytes, Statement] = {}

    def old(self, key: bytes) -> Statement | None:
        """Look for what is not in `young`; found, it is young again."""
        statement = self._old.get(key)
        if statement is not None:
            self.add(key, statement)
        return statement

    def add(self, key: bytes, statement: Statement) -> Statement:
        """Remember, and give back."""
        if len(self.young) >= GENERATION:
            self._old = self.young
            self.young = {}
        self.young[key] = statement
        return statement


def _depends_on_literals(statement: Statement) -> bool:
    """Whether another text of the same skeleton may give something else."""
    # What is unreadable is judged by words anywhere in it.
    return bool(statement.assignments or statement.holds) or statement.reason in _LITERAL


def _shared_key(sql: bytes, mode_flags: int) -> bytes | None:
    """What a text has in common with all that are the same statement; None if it may be alone."""
    key = skeleton(sql, mode_flags)
    if key is None or not mentions_tidegate(sql):
        return key
    comment = directive_comment(sql)
    if mentions_tidegate(sql[len(comment) :]) and not mentions_tidegate(key):
        return None  # SHOW VARIABLES LIKE 'tidegate%': only a literal tells that it is Tidegate's
    return comment + key  # no skeleton has a whole comment in it


class Classifier:
    """`classify_text` behind caches: by the text itself, and by what is left without literals.

    The skeleton takes a search of the text. So of texts that end in a number, as those of a look-up
    by key do, what stands before it is remembered, too.

    Holds at most 2 * GENERATION entries of MAX_KEY bytes in each cache, for each combination of
    mode flags that is in use; and the last text that took a search, which may be asked for again by
    whoever serves it in the end.
    """

    def __init__(self) -> None:
        self._texts = [_Cache() for _ in range(MODES)]
        self._numbered = [_Cache() for _ in range(MODES)]
        self._skeletons = [_Cache() for _ in range(MODES)]
        self._last: Statement | None = None
        self._last_sql = b""
        self._last_flags = 0

    def classify(self, sql: bytes, mode_flags: int) -> Statement:
        """Classify a text.

        Args:
            sql: what a client sends as COM_QUERY or COM_STMT_PREPARE.
            mode_flags: a sum of `routing.sql.lexer.MODE_…`.
        """
        statement = self._texts[mode_flags].young.get(sql)
        if statement is not None:
            return statement
        return self._look_further(sql, mode_flags)

    def known(self, packet: bytes, begin: int, mode_flags: int) -> Statement | None:
        """What a text that was classified lately is, or one that differs in its last number alone.

        Args:
            packet: what holds the text.
            begin: where the text begins; it goes on to the end.
            mode_flags: as of `classify`.

        Returns:
            None if it has to be classified.
        """
        end = len(packet)
        while end > begin and _ZERO <= packet[end - 1] <= _NINE:
            end -= 1
        if end - begin > MAX_KEY:
            return None
        if end < len(packet):
            return self._numbered[mode_flags].young.get(packet[begin:end])
        return self._texts[mode_flags].young.get(packet[begin:])

    def _look_further(self, sql: bytes, mode_flags: int) -> Statement:
        if len(sql) > MAX_KEY:
            return self._by_skeleton(sql, mode_flags)
        texts = self._texts[mode_flags]
        end = len(sql)
        while end and _ZERO <= sql[end - 1] <= _NINE:
            end -= 1
        if end == len(sql):
            return texts.old(sql) or texts.add(sql, self._by_skeleton(sql, mode_flags))
        head = sql[:end]
        numbered = self._numbered[mode_flags]
        statement = numbered.young.get(head)
        if statement is None:
            statement = numbered.old(head) or texts.old(sql)
        if statement is not None:
            return statement
        statement = self._by_skeleton(sql, mode_flags)
        if _depends_on_literals(statement) or BEFORE_NUMBER.fullmatch(head) is None:
            return texts.add(sql, statement)
        return numbered.add(head, statement)

    def _by_skeleton(self, sql: bytes, mode_flags: int) -> Statement:
        if len(sql) > MAX_TEXT:
            return classify_text(sql, mode_flags)
        if self._last is not None and mode_flags == self._last_flags and sql == self._last_sql:
            return self._last
        self._last = statement = self._search(sql, mode_flags)
        self._last_sql, self._last_flags = sql, mode_flags
        return statement

    def _search(self, sql: bytes, mode_flags: int) -> Statement:
        cache = self._skeletons[mode_flags]
        key = _shared_key(sql, mode_flags)
        if key is None or len(key) > MAX_KEY:
            return classify_text(sql, mode_flags)
        statement = cache.young.get(key)
        if statement is None:
            statement = cache.old(key)
        if statement is None:
            statement = classify_text(sql, mode_flags)
            if not _depends_on_literals(statement):
                cache.add(key, statement)
        return statement
