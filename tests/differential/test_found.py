"""Sessions that once differed."""

import itertools

import pytest

from protocol.constants import Capability, Command
from protocol.response_stream import STRING
from tests.differential.arena import Arena
from tests.differential.session import Session
from tests.differential.step import Execute, Prepare, Query, ResetStatement, Send, Step

OLD = Capability(0)
MODERN = Capability.CLIENT_DEPRECATE_EOF | Capability.CLIENT_SESSION_TRACK
LONGLONG = 8

READ = Query("SELECT * FROM items ORDER BY id")
ASKS_TWICE = (Query("SELECT ROW_COUNT()"), Query("SELECT ROW_COUNT()"))

FAILING = (
    Query("SELECT id FROM missing WHERE id = 6 FOR UPDATE"),
    Query("SELECT missing FROM items"),
    Query("SELECT adds(1) FROM missing"),
    Query("INSERT INTO missing SELECT id FROM items"),
    Query("UPDATE missing SET a = (SELECT MAX(id) FROM items)"),
    Query("DELETE FROM missing USING missing, items"),
    Query("SET @a = (SELECT a FROM missing)"),
    Query("DO (SELECT a FROM missing)"),
    Query("CALL out_params((SELECT a FROM missing), @a, @b)"),
    Prepare(0, "SELECT id FROM missing FOR UPDATE"),
)
"""What fails before it reads a table, and names what could be a view."""

FOUND: dict[str, tuple[Capability, tuple[Step, ...]]] = {
    "an EOF showed flags of the statement before": (
        OLD,
        (
            Query("SELECT COUNT(*) FROM parts WHERE w > 0"),
            Prepare(0, "SELECT id, name FROM items WHERE id = ?"),
        ),
    ),
    "EOFs of a prepared statement hid its warnings": (OLD, (Prepare(0, "SELECT 'a' || ?"),)),
    "a command that nobody knows": (MODERN, (Send(0x77),)),
    "a preparation spent SET TRANSACTION": (
        MODERN,
        (
            Query("SET TRANSACTION READ ONLY"),
            Prepare(0, "SELECT * FROM items WHERE id > ? ORDER BY id"),
            Execute(0, ((LONGLONG, bytes(8)),)),
            Query("DELETE FROM items WHERE id = 5"),
        ),
    ),
    "a SELECT without a table spent SET TRANSACTION": (
        MODERN,
        (
            Query("SET TRANSACTION READ ONLY"),
            Query("SELECT 1"),
            Query("SELECT * FROM items ORDER BY id"),
            Query("DELETE FROM items WHERE id = 5"),
        ),
    ),
    "GET DIAGNOSTICS set its variables on a replica": (
        MODERN,
        (
            Query("SHOW DATABASES"),
            Query("GET DIAGNOSTICS @n = NUMBER, @rc = ROW_COUNT"),
            Query("SELECT @n, @rc"),
        ),
    ),
    "several statements in one text lost ROW_COUNT()": (
        MODERN,
        (Query("SET @a = 7; SELECT @a"), Query("SELECT ROW_COUNT()")),
    ),
    "the proxy's own question took what a tracker had to tell": (
        MODERN,
        (
            Query("SET session_track_transaction_info = 'CHARACTERISTICS'"),
            Execute(0),
            Query("XA START 'x'"),
            Query("SELECT 1"),
        ),
    ),
    "the proxy's own question took what an EOF had left to tell": (
        Capability.CLIENT_SESSION_TRACK,
        (
            Query("SET session_track_transaction_info = 'STATE'"),
            Query("START TRANSACTION READ ONLY, WITH CONSISTENT SNAPSHOT"),
            Query("SELECT AVG(qty) FROM items"),
            Query("SET CHARACTER SET DEFAULT"),
            Query("SELECT AVG(qty) FROM items"),
            Query("COMMIT"),
        ),
    ),
    "the proxy's own questions were answered in UTF-16": (
        MODERN,
        (
            Query("SET character_set_results = utf16"),
            Query("UPDATE items SET qty = 3"),
            Query("SELECT * FROM items ORDER BY id"),
            Query("SELECT missing"),
        ),
    ),
    "SHOW WARNINGS lost a read's warnings behind another command": (
        MODERN,
        (
            Query("SELECT 1/0, 2/0"),
            Send(Command.COM_INIT_DB, b"app"),
            Query("SHOW WARNINGS"),
        ),
    ),
    "ROW_COUNT() did not see the proxy's own answer to COM_PING": (
        MODERN,
        (
            Query("DELETE FROM parts"),
            Send(Command.COM_PING),
            Send(Command.COM_STATISTICS, b"", STRING, is_compared=False),
            *ASKS_TWICE,
            Query("SELECT missing"),
            Send(Command.COM_PING),
            Query("SHOW COUNT(*) ERRORS"),
            *ASKS_TWICE,
            Query("INSERT INTO parts (label) VALUES ('p')"),
            Send(Command.COM_PING),
            Prepare(0, "SELECT ROW_COUNT()"),
            Execute(0),
            Execute(0),
        ),
    ),
    "ROW_COUNT() did not see a COM_PING behind a replica's read": (
        OLD,
        (
            READ,
            Send(Command.COM_PING),
            *ASKS_TWICE,
            READ,
            Send(Command.COM_PING),
            Query("SELECT FOUND_ROWS(), ROW_COUNT()"),
            READ,
            Send(Command.COM_PING),
            Query("SET @rc = ROW_COUNT()"),
            Query("SELECT @rc"),
        ),
    ),
    "ROW_COUNT() did not see a COM_INIT_DB behind a replica's read": (
        MODERN,
        (READ, Send(Command.COM_INIT_DB, b"app"), *ASKS_TWICE),
    ),
    "a CALL was given another FOUND_ROWS() than there was before a write": (
        MODERN,
        (
            Query("INSERT INTO parts (label) VALUES ('p'), ('q')"),
            Query("CALL out_params(FOUND_ROWS(), @a, @b)"),
            Query("SELECT @a, @b"),
        ),
    ),
    "a READ ONLY transaction went on that a failed TRUNCATE had ended": (
        MODERN,
        (Query("START TRANSACTION READ ONLY"), READ, Query("TRUNCATE items"), READ, READ),
    ),
    "ROW_COUNT() did not see the proxy's own answer to COM_STMT_RESET": (
        MODERN,
        (
            Prepare(0, "SELECT id FROM items WHERE id = 1"),
            Query("DELETE FROM parts"),
            ResetStatement(0),
            *ASKS_TWICE,
            Execute(0),
            Query("INSERT INTO parts (label) VALUES ('p')"),
            ResetStatement(0),
            *ASKS_TWICE,
            READ,
            ResetStatement(0),
            *ASKS_TWICE,
        ),
    ),
    "a question of the proxy's own opened a transaction in front of what failed": (
        MODERN,
        (
            Query("SET autocommit = 0"),
            Query("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"),
            *itertools.chain.from_iterable(
                (
                    Query("GRANT ALL ON *.* TO other"),
                    Query("SHOW COUNT(*) ERRORS"),
                    step,
                    Query("SELECT 1"),
                    Query("COMMIT"),
                )
                for step in FAILING
            ),
        ),
    ),
    "COM_STMT_RESET told of no transaction": (
        MODERN,
        (
            Prepare(0, "SELECT id FROM items WHERE id = 1"),
            Execute(0),
            Query("BEGIN"),
            ResetStatement(0),
            *ASKS_TWICE,
            Query("DELETE FROM parts"),
            ResetStatement(0),
            *ASKS_TWICE,
            Query("COMMIT"),
            ResetStatement(0),
            Query("START TRANSACTION READ ONLY"),
            ResetStatement(0),
            Execute(0),
            ResetStatement(0),
            Query("COMMIT"),
        ),
    ),
    "user variables that a prepared SET creates had another type on a replica": (
        MODERN,
        (
            Prepare(0, "SET @a = ?"),
            Query("SELECT @a FROM items"),
            Query("PREPARE st1 FROM 'SET @b = 1, @c = ?'"),
            Query("SELECT @b, @c FROM items"),
        ),
    ),
    "COM_STMT_RESET told of a transaction behind an error": (
        MODERN,
        (
            Prepare(0, "SELECT id FROM items WHERE id = 1"),
            Execute(0),
            Query("INSERT INTO items (id) VALUES (1)"),
            ResetStatement(0),
            Query("BEGIN"),
            Query("INSERT INTO items (id) VALUES (1)"),
            ResetStatement(0),
        ),
    ),
}


@pytest.mark.real_mysql
@pytest.mark.parametrize("name", FOUND)
def test_found(arena: Arena, name: str) -> None:
    capabilities, steps = FOUND[name]
    difference = arena.judge(Session(capabilities, "app", steps))
    assert difference is None, str(difference)
