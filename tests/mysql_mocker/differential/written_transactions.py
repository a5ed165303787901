"""Written sessions about what begins a transaction, and in which schema a statement runs."""

from protocol.constants import Capability
from tests.differential.step import Execute, Prepare, Query, Step

MODERN = Capability.CLIENT_DEPRECATE_EOF | Capability.CLIENT_SESSION_TRACK


def queries(*texts: str) -> tuple[Step, ...]:
    return tuple(Query(text) for text in texts)


def _each(*texts: str) -> tuple[Step, ...]:
    """Each of them without autocommit, in a transaction of its own if it begins one."""
    begun = queries("SET session_track_transaction_info = 'STATE'", "SET autocommit = 0")
    return begun + tuple(step for text in texts for step in queries(text, "DO 1", "ROLLBACK"))


TRANSACTIONS: dict[str, tuple[Capability, tuple[Step, ...]]] = {
    "characteristics under a tracker that tells the state only": (
        MODERN,
        queries(
            "SET session_track_transaction_info = 'STATE'",
            *("SET TRANSACTION READ ONLY",) * 2,
            "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
            *("SELECT missing", "DO 1", "SELECT id FROM items", "DO 1"),
            *("SET TRANSACTION READ ONLY", "SELECT missing FROM items", "DO 1"),
            "SET session_track_transaction_info = 'CHARACTERISTICS'",
        ),
    ),
    "reads whose names are unknown": (
        MODERN,
        _each(
            *("SELECT id FROM items, parts", "SELECT missing FROM items"),
            "SELECT id, missing() FROM items",
            *("SELECT missing FROM items FOR UPDATE", "SELECT id FROM missing FOR SHARE"),
            *("SET @a = (SELECT missing FROM items)", "DO (SELECT missing FROM items)"),
        ),
    ),
    "writes whose names are unknown": (
        MODERN,
        _each(
            *("UPDATE items SET missing = 1", "DELETE FROM parts WHERE item = missing()"),
            *("INSERT INTO items (missing) VALUES (1)", "INSERT INTO items VALUES (1, 2)"),
            "INSERT INTO items (name) SELECT missing FROM items",
            "INSERT INTO items (name) VALUES ('a') ON DUPLICATE KEY UPDATE missing = 1",
            *("DELETE FROM missing", "INSERT INTO items (name) VALUES ('five')"),
            "SELECT MAX(id) FROM items",
        ),
    ),
    "writes whose rows are refused": (
        MODERN,
        _each(
            "INSERT INTO side.words (word) VALUES ('keyless')",
            "INSERT INTO items (name, qty) VALUES ('nulled', NULL)",
            *("INSERT INTO items (name) VALUES ('one')", "UPDATE items SET id = 1 WHERE id = 2"),
        ),
    ),
    "reads that begin a transaction": (
        MODERN,
        _each(
            *("SELECT id FROM items FOR SHARE", "SELECT id FROM items WHERE id = 1 FOR UPDATE"),
            *("SET @a = (SELECT MAX(qty) FROM items)", "SET @a = (SELECT 1)"),
            *("DO (SELECT MAX(qty) FROM items)", "SHOW TABLES", "SHOW DATABASES LIKE 'app'"),
            *("SHOW COLUMNS FROM items", "DESCRIBE items", "DESCRIBE missing"),
            *("SHOW TABLES FROM nowhere", "SHOW CREATE DATABASE app", "SHOW WARNINGS"),
        ),
    ),
    "what spends SET TRANSACTION": (
        MODERN,
        queries(
            *("SET TRANSACTION READ ONLY", "SELECT missing FROM items", "DELETE FROM parts"),
            *("SET TRANSACTION READ ONLY", "SET @a = (SELECT MAX(qty) FROM items)"),
            *("DELETE FROM parts", "SET TRANSACTION READ ONLY", "SHOW TABLES"),
            "INSERT INTO parts (item) VALUES (1)",
        ),
    ),
    "writes that replicate as rows only": (
        MODERN,
        (
            *queries("SET session_track_transaction_info = 'STATE'"),
            *(
                step
                for text in (
                    *("UPDATE items SET qty = 3 ORDER BY id LIMIT 1", "DELETE FROM parts LIMIT 1"),
                    *("UPDATE items SET qty = 4 ORDER BY id", "SHOW VARIABLES LIKE 'autocommit'"),
                    "INSERT INTO parts (item) SELECT id FROM items LIMIT 1",
                    "INSERT INTO parts (item) SELECT id FROM items",
                    "INSERT INTO items (id) VALUES (1) ON DUPLICATE KEY UPDATE qty = 5",
                    "INSERT INTO parts (id) VALUES (1) ON DUPLICATE KEY UPDATE item = 5",
                    "INSERT IGNORE INTO items (id) VALUES (1)",
                )
                for step in queries("BEGIN", text, "ROLLBACK")
            ),
            *queries("BEGIN", "DELETE FROM parts"),
        ),
    ),
    "procedures of another schema": (
        MODERN,
        (
            Prepare(0, "CALL results()"),
            *queries("SET session_track_state_change = ON", "USE side"),
            Prepare(1, "CALL results()"),
            *queries("SHOW WARNINGS"),
            Execute(1),
            Prepare(1, "CALL nowhere.nothing()"),
            *queries("PREPARE p FROM 'CALL results()'", "EXECUTE p", "PREPARE p FROM 'CALL x.y()'"),
            Execute(0),
            *queries("CALL app.results()", "CALL app.writes()", "CALL app.fails()", "DO 1"),
            *queries("SET session_track_schema = OFF", "CALL app.writes()", "SELECT DATABASE()"),
        ),
    ),
    "prepared statements of another schema": (
        MODERN,
        (
            Prepare(0, "SELECT DATABASE()"),
            Prepare(1, "DO 1"),
            *queries("PREPARE p FROM 'SELECT MAX(id), DATABASE() FROM items'", "USE side"),
            Execute(0),
            Execute(1),
            *queries("EXECUTE p", "SELECT DATABASE()", "CREATE DATABASE fresh_schema"),
            *queries("USE fresh_schema", "PREPARE q FROM 'SELECT 1'"),
            Prepare(2, "DO 2"),
            *queries("DROP DATABASE fresh_schema"),
            Execute(0),
            Execute(2),
            *queries("SHOW WARNINGS", "SELECT DATABASE()", "USE app", "EXECUTE q"),
            Execute(2),
        ),
    ),
}
