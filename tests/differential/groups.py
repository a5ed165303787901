"""What sessions are made of: groups of steps, and how often each is drawn."""

from protocol.constants import Command
from protocol.response_stream import FIELDS, SIMPLE, STRING
from tests.differential import collations, data_texts, questions, session_texts
from tests.differential.levels import LEVELS
from tests.differential.schema import OTHER_PASSWORD, OTHER_USER, PASSWORD, USER
from tests.differential.step import Beside, ChangeUser, Query, Send, Step

COMMANDS: tuple[Step, ...] = (
    Send(Command.COM_PING),
    Send(Command.COM_INIT_DB, b"app"),
    Send(Command.COM_INIT_DB, b"side"),
    Send(Command.COM_INIT_DB, b"nowhere"),
    Send(Command.COM_INIT_DB, b""),
    Send(Command.COM_FIELD_LIST, b"items\x00", FIELDS),
    Send(Command.COM_FIELD_LIST, b"items\x00n%", FIELDS),
    Send(Command.COM_FIELD_LIST, b"missing\x00", FIELDS),
    Send(Command.COM_STATISTICS, b"", STRING, is_compared=False),
    Send(Command.COM_SET_OPTION, b"\x00\x00"),
    Send(Command.COM_SET_OPTION, b"\x01\x00"),
    Send(Command.COM_SET_OPTION, b"\x07\x00"),
    Send(Command.COM_RESET_CONNECTION),
    Send(Command.COM_RESET_CONNECTION),
    Send(Command.COM_DEBUG),
    Send(Command.COM_SLEEP),
    Send(Command.COM_CONNECT),
    Send(Command.COM_TIME),
    Send(Command.COM_CREATE_DB, b"app"),
    Send(Command.COM_REFRESH, b"\x01"),
    Send(Command.COM_PROCESS_INFO, b"", SIMPLE, is_compared=False),
    Send(0x77),
    Send(0xFF),
    ChangeUser(USER, PASSWORD, "app"),
    ChangeUser(USER, PASSWORD, ""),
    ChangeUser(OTHER_USER, OTHER_PASSWORD, "app"),
    ChangeUser(OTHER_USER, "wrong", "app"),
    ChangeUser(USER, PASSWORD, "nowhere"),
)

CONTENTION: tuple[Step, ...] = (
    Beside("BEGIN"),
    Beside("SELECT * FROM items WHERE id = 4 FOR UPDATE"),
    Beside("SELECT * FROM items WHERE id = 1 FOR SHARE"),
    Beside("ROLLBACK"),
    Beside("LOCK TABLES counted READ"),
    Beside("UNLOCK TABLES"),
    Beside("SELECT GET_LOCK('k1', 0)"),
    Beside("SELECT RELEASE_ALL_LOCKS()"),
    Query("SELECT id FROM items WHERE id = 4 FOR UPDATE NOWAIT"),
    Query("SELECT id FROM items ORDER BY id FOR UPDATE SKIP LOCKED"),
    Query("SELECT id FROM items WHERE id = 1 FOR SHARE NOWAIT"),
    Query("SELECT id FROM items WHERE id = 2"),
    Query("ALTER TABLE counted NOWAIT, ADD COLUMN late INT"),
    Query("SELECT adds(1)"),
    Query("SELECT GET_LOCK('k1', 0)"),
    Query("SELECT IS_FREE_LOCK('k1')"),
    Query("UPDATE items SET qty = 7 WHERE id = 3"),
)
"""Another client holds locks, for which nobody waits long (`schema.GLOBALS`)."""

ATTRIBUTED: tuple[Step, ...] = (
    Query("SELECT 1", (("trace", "abc"),)),
    Query("SELECT * FROM items ORDER BY id", (("a", ""), ("b", "ä"))),
    Query("INSERT INTO parts (label) VALUES ('q')", (("trace", "x" * 300),)),
    Query("SELECT * FROM missing", (("trace", "abc"),)),
    Query("SELECT mysql_query_attribute_string('trace')", (("trace", "abc"),)),
)

COLLATIONS: tuple[Step, ...] = tuple(
    ChangeUser(USER, PASSWORD, "app", collation)
    for collation in (*collations.COLLATIONS, *collations.WIDE, *collations.UNKNOWN * 4)
)
"""COM_CHANGE_USER with every collation, and oftener with those that a login cannot name."""

Group = tuple[str | Step, ...]
"""Texts of COM_QUERY, and steps."""

READS: tuple[int, Group] = (24, data_texts.SELECTS)
WRITES: tuple[int, Group] = (14, data_texts.WRITES)
"""What every session does, with their weights."""

PREPARED: tuple[int, Group] = (15, data_texts.PREPARED)

OTHERS: tuple[tuple[int, Group], ...] = (
    (5, data_texts.DEFINITIONS),
    (6, data_texts.SHOWS),
    (5, data_texts.ERRORS),
    (8, session_texts.DIAGNOSTICS),
    (1, session_texts.MIXED_DIAGNOSTICS),
    (12, session_texts.SETTINGS),
    (3, session_texts.TRACKING),
    (3, session_texts.TRACING),
    (6, session_texts.USER_VARIABLES),
    (8, session_texts.TRANSACTIONS),
    (8, session_texts.WITHOUT_AUTOCOMMIT),
    (6, session_texts.CALLS),
    (5, session_texts.STATEFUL),
    (2, session_texts.USES),
    (4, COMMANDS),
    (8, CONTENTION),
    (2, ATTRIBUTED),
    (10, questions.QUESTIONS),
    (10, questions.QUESTIONS),
    (5, LEVELS),
    (6, COLLATIONS),
    PREPARED,
    PREPARED,
)
"""What some sessions do, and with what weight then."""
