"""Compares the classification of some thousand statements with an independent judge, sqlglot.

Its parser knows nothing of `routing`. Where it and the classification differ, DIFFERENCES says why.
A difference without a reason there fails the test, and so does a reason that explains nothing.
"""

import logging
import re
from collections import Counter
from collections.abc import Iterator

import pytest
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from routing.sql.statement import StatementClass, classify
from tests.routing.sql.corpus_manual import MANUAL
from tests.routing.sql.corpus_queries import corpus

UNDECIDED = "undecided"


def _words(text: str) -> list[str]:
    return text.split()


# Functions that sqlglot parses as unknown calls, but the manual lists as native and harmless.
NATIVE = frozenset(
    _words("""
    now curdate row inet_aton bin_to_uuid uuid_to_bin hex unhex crc32 rand uuid isnull
    match var_pop stddev json_arrayagg json_objectagg date_format str_to_date last_day st_x
    st_distance regexp_like regexp_replace find_in_set format elt field bit_count json_contains
    json_length json_valid json_set json_object json_array any_value lpad concat_ws reverse locate
    from_unixtime unix_timestamp datediff timestampdiff greatest max_execution_time set_var
    column_0 values interval mod collate json_extract schema database year month day
""")
)
IN_SESSION = frozenset(
    _words("""
    release_lock is_free_lock is_used_lock release_all_locks sleep last_insert_id connection_id
    user current_user session_user system_user version uuid_short benchmark load_file
    master_pos_wait wait_for_executed_gtid_set current_role
""")
)
SERVER_SCHEMAS = {"performance_schema", "mysql", "sys"}
READ_SHOWS = frozenset(
    _words("""
    TABLES COLUMNS INDEX DATABASES TRIGGERS COLLATION CREATE_TABLE CREATE_VIEW CREATE_DATABASE
    CREATE_PROCEDURE CREATE_FUNCTION CREATE_TRIGGER TABLE_STATUS PROCEDURE_STATUS FUNCTION_STATUS
    CHARACTER_SET
""")
)

SEVERITY = ("read", "diagnostic", "session", "pin", "write")


def verdicts(tree: exp.Expression) -> Iterator[str]:
    """The class that each part of a query implies."""
    yield "read"
    for node in tree.walk():
        if isinstance(node, exp.Lock):
            yield "write"
        elif isinstance(node, exp.Into):
            yield "session" if node.find(exp.Parameter) else "write"
        elif isinstance(node, exp.PropertyEQ) and isinstance(node.this, exp.Parameter):
            yield "session"
        elif isinstance(node, exp.SessionParameter):
            yield "diagnostic" if node.name.lower() == "warning_count" else "session"
        elif isinstance(node, exp.CurrentUser | exp.SessionUser | exp.CurrentVersion):
            yield "session"
        elif isinstance(node, exp.Table):
            yield "session" if node.db.lower() in SERVER_SCHEMAS else "read"
        elif isinstance(node, exp.Insert | exp.Update | exp.Delete):
            yield "write"
        elif isinstance(node, exp.Anonymous):
            yield call(node)


def call(node: exp.Anonymous) -> str:
    name = node.this.name if isinstance(node.this, exp.Identifier) else str(node.this)
    plain = not isinstance(node.this, exp.Identifier) and not isinstance(node.parent, exp.Dot)
    name = name.lower()
    if plain and name in NATIVE:
        return "read"
    if plain and name in IN_SESSION:
        return "session"
    if plain and name in ("found_rows", "row_count"):
        return "diagnostic"
    return "pin" if plain and name == "get_lock" else "write"


def judge(text: str) -> str:
    """The class of a text, by its syntax tree."""
    try:
        trees = [tree for tree in sqlglot.parse(text, dialect="mysql") if tree is not None]
    except SqlglotError:
        return UNDECIDED
    if len(trees) != 1:
        return "write"
    tree = trees[0]
    if isinstance(tree, exp.Query | exp.Values):
        return max(verdicts(tree), key=SEVERITY.index)
    if isinstance(tree, exp.Describe):
        inner = tree.this
        return max(verdicts(inner), key=SEVERITY.index)
    if isinstance(tree, exp.Create):
        return "pin" if tree.find(exp.TemporaryProperty) else "write"
    if isinstance(tree, exp.DML | exp.DDL | exp.Drop | exp.Alter | exp.TruncateTable):
        return "write"
    if isinstance(tree, exp.Grant | exp.Analyze):
        return "write"
    if isinstance(tree, exp.Transaction | exp.Commit | exp.Rollback):
        return "transaction"
    if isinstance(tree, exp.Use | exp.Kill):
        return "session"
    if isinstance(tree, exp.Set):
        found = max((*verdicts(tree), "session"), key=SEVERITY.index)
        return "transaction" if "TRANSACTION" in text.upper() else found
    if isinstance(tree, exp.Show):
        name = tree.name.replace(" ", "_")
        if name in ("WARNINGS", "ERRORS"):
            return "diagnostic"
        found = "read" if name in READ_SHOWS else "session"
        return max((*verdicts(tree), found), key=SEVERITY.index)
    return UNDECIDED


# (pattern of the text, judged, found, reason)
STORED = "after a blank it is a stored function's name (IGNORE_SPACE is not relied on)"
BACKTICKS = "in backticks it is a stored function's name"
DIFFERENCES = [
    (r"\b(?:sum|count|now|max) \(", "read", "write", STORED),
    (r"\b(?:sum|count|now|max) \(", "session", "write", STORED),
    (r"\b(?:sum|count|now|max) \(", "pin", "write", STORED),
    (r"`sum`\(", "read", "write", BACKTICKS),
    (r"`sum`\(", "session", "write", BACKTICKS),
    (r"`sum`\(", "pin", "write", BACKTICKS),
    (
        *(r"(?:found_rows|row_count)\(\)|@@warning_count", "diagnostic", "session"),
        "with a table in it, it must also see what the session wrote",
    ),
    (r"^(?:explain|describe) (?:update|delete)", "write", "session", "executes nothing"),
    (
        *(r"^show .* (?:from|in) (?:mysql|performance_schema)\b", "read", "session"),
        "that schema is each server's own",
    ),
    (r"^set password", "session", "write", "changes an account"),
    (r"^set$", "session", "write", "is no statement"),
    (r"^explain t set", "read", "write", "is no statement"),
    (r"^start replica", "transaction", "write", "sqlglot takes any START for a transaction"),
]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.not_plain
@pytest.mark.not_fast
def test_corpus() -> None:
    texts = list(corpus()) + [text for forms in MANUAL.values() for text, _ in forms]
    used: Counter[str] = Counter()
    unexplained = []
    for text in texts:
        judged = judge(text)
        found = classify(text.encode()).kind
        if judged in (found, UNDECIDED):
            used[judged] += 1
            continue
        for pattern, his, ours, reason in DIFFERENCES:
            if (his, ours) == (judged, found) and re.search(pattern, text, re.IGNORECASE):
                used[reason] += 1
                break
        else:
            unexplained.append((judged, found.value, text))
    assert not unexplained
    assert all(used[reason] for *_, reason in DIFFERENCES)
    assert used[UNDECIDED] < len(texts) / 10
    assert used[StatementClass.READ] > 1000
    assert used[StatementClass.WRITE] > 1000
