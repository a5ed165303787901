"""Classification that remembers: most statements come again, with the same or other literals."""

from typing import Final, Generic, TypeVar

from routing.sql.directive import directive_comment
from routing.sql.lexer import MODES, skeleton
from routing.sql.statement import MAX_TEXT, Statement, StatementReason, classify_text
from routing.sql.tidegate_statement import mentions_tidegate
from routing.sql.token_patterns import NAME_DIGITS, NUMBERED

MAX_KEY: Final = 1024
"""Longer texts, and longer skeletons, are not kept. Bytes."""
GENERATION: Final = 2048
"""Entries in each half of a cache."""
_LITERAL: Final = (
    StatementReason.KILL,
    StatementReason.UNREADABLE,
    StatementReason.PROXY,
    StatementReason.PREPARED_STATEMENT,
    StatementReason.EXECUTED,
    StatementReason.STATUS,
)
"""Reasons of statements that are not what others of their skeleton are."""
_DIGITS_AS_ZERO: Final = bytes(0x30 if 0x30 <= byte <= 0x39 else byte for byte in range(256))

_T = TypeVar("_T")


class _Cache(Generic[_T]):
    """A bounded dict in two generations: what was not asked for in the last one is forgotten."""

    __slots__ = ("_old", "young")

    def __init__(self) -> None:
        self.young: dict[bytes, _T] = {}
        self._old: dict[bytes, _T] = {}

    def old(self, key: bytes) -> _T | None:
        """Look for what is not in `young`; found, it is young again."""
        found = self._old.get(key)
        if found is not None:
            self.add(key, found)
        return found

    def add(self, key: bytes, value: _T) -> _T:
        """Remember, and give back."""
        if len(self.young) >= GENERATION:
            self._old = self.young
            self.young = {}
        self.young[key] = value
        return value


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


def _key(form: bytes, sql: bytes, places: tuple[int, ...]) -> bytes:
    """A text's form, and the digits in its names: the key of what is the same statement."""
    parts = [form]
    for at in range(0, len(places), 2):
        parts.append(sql[places[at] : places[at + 1]])
    return b"\0".join(parts)


class Classifier:
    """`classify_text` behind caches: by the text itself, and by what is left without literals.

    What is left without literals, the skeleton, takes a search of the text. So of texts whose
    literals are whole numbers the form is remembered, too: the text with a zero for each digit.
    Where in a text of one form the digits of names are does not depend on the digits; and any
    others are numbers, which may be what they like.

    Holds at most 2 * GENERATION entries of MAX_KEY bytes in each cache, for each combination of
    mode flags that is in use; and the last text that took a search, which may be asked for again by
    whoever serves it in the end.
    """

    def __init__(self) -> None:
        self._texts: list[_Cache[Statement]] = [_Cache() for _ in range(MODES)]
        self._forms: list[_Cache[Statement]] = [_Cache() for _ in range(MODES)]
        # Of forms in whose names there are digits: where those are; and the statements.
        self._places: _Cache[tuple[int, ...]] = _Cache()
        self._named: list[_Cache[Statement]] = [_Cache() for _ in range(MODES)]
        self._skeletons: list[_Cache[Statement]] = [_Cache() for _ in range(MODES)]
        self._last: Statement | None = None
        self._last_sql = b""
        self._last_flags = 0

    def classify(self, sql: bytes, mode_flags: int) -> Statement:
        """Classify a text.

        Args:
            sql: what a client sends as COM_QUERY or COM_STMT_PREPARE.
            mode_flags: a sum of `routing.sql.lexer.MODE_…`.
        """
        if len(sql) > MAX_KEY:
            return self._by_skeleton(sql, mode_flags)
        form = sql.translate(_DIGITS_AS_ZERO)
        statement = self._forms[mode_flags].young.get(form)
        if statement is None:
            places = self._places.young.get(form)
            if places is None:
                statement = self._texts[mode_flags].young.get(sql)
            else:
                statement = self._named[mode_flags].young.get(_key(form, sql, places))
        return statement or self._look_further(sql, form, mode_flags)

    def _look_further(self, sql: bytes, form: bytes, mode_flags: int) -> Statement:
        """The same for what was not asked for lately."""
        texts, forms, named = (
            table[mode_flags] for table in (self._texts, self._forms, self._named)
        )
        statement = texts.young.get(sql) or texts.old(sql) or forms.old(form)
        if statement is not None:
            return statement
        places = self._places.young.get(form) or self._places.old(form)
        if places is not None:
            statement = named.old(_key(form, sql, places))
            if statement is not None:
                return statement
        statement = self._by_skeleton(sql, mode_flags)
        if _depends_on_literals(statement) or NUMBERED.fullmatch(sql) is None:
            return texts.add(sql, statement)
        if places is None:
            places = tuple([at for match in NAME_DIGITS.finditer(sql) for at in match.span()])
        if not places:
            return forms.add(form, statement)
        self._places.add(form, places)
        return named.add(_key(form, sql, places), statement)

    def _by_skeleton(self, sql: bytes, mode_flags: int) -> Statement:
        if self._last is not None and mode_flags == self._last_flags and sql == self._last_sql:
            return self._last
        self._last = statement = self._search(sql, mode_flags)
        self._last_sql, self._last_flags = sql, mode_flags
        return statement

    def _search(self, sql: bytes, mode_flags: int) -> Statement:
        if len(sql) > MAX_TEXT:
            return classify_text(sql, mode_flags)
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
