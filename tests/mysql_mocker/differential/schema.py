"""What a session finds on both peers: two schemas and one account, made alike before each run."""

USER, PASSWORD = "differ", "differ-secret"

ACCOUNT = (
    f"CREATE USER {USER} IDENTIFIED WITH caching_sha2_password BY '{PASSWORD}'",
    f"GRANT ALL ON *.* TO {USER}",
)

GLOBALS = ("innodb_lock_wait_timeout = 1", "log_bin_trust_function_creators = ON")

DEFINITIONS = (
    "DROP DATABASE IF EXISTS app",
    "DROP DATABASE IF EXISTS side",
    "DROP DATABASE IF EXISTS fresh_schema",
    "CREATE DATABASE app",
    "CREATE DATABASE side",
    """CREATE TABLE app.items (
      id INT AUTO_INCREMENT PRIMARY KEY,
      name VARCHAR(20) UNIQUE,
      qty INT NOT NULL DEFAULT 0,
      price DECIMAL(10,2),
      note TEXT,
      made DATETIME,
      data BLOB,
      weight DOUBLE)""",
    """CREATE TABLE app.parts (
      id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY,
      item INT,
      label VARCHAR(10) NOT NULL DEFAULT 'x',
      kind CHAR(3),
      small SMALLINT,
      d DATE,
      KEY (item))""",
    "CREATE TABLE side.words (id INT PRIMARY KEY, word VARCHAR(20))",
    "CREATE PROCEDURE app.results() BEGIN SELECT 1; SELECT name AS b FROM items ORDER BY id; END",
    """CREATE PROCEDURE app.writes()
      BEGIN INSERT INTO parts (item) VALUES (1); INSERT INTO parts (item) VALUES (2); END""",
    """CREATE PROCEDURE app.fails() BEGIN INSERT INTO parts (item) VALUES (7);
      SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'failed'; END""",
    """CREATE FUNCTION app.adds() RETURNS INT
      BEGIN INSERT INTO parts (item) VALUES (5); RETURN 7; END""",
)

EMPTYING = ("TRUNCATE TABLE app.items", "TRUNCATE TABLE app.parts", "DELETE FROM side.words")
"""Instead of the definitions, where no session has changed those."""

DATA = (
    """INSERT INTO app.items (name, qty, price, note, made, data, weight) VALUES
      ('one', 1, 1.10, 'first', '2024-01-01 00:00:00', x'00ff', 0.5),
      ('two', 2, 2.20, NULL, NULL, NULL, NULL),
      ('three', 3, NULL, '', '2024-02-29 10:11:12', '', -2.25),
      ('vier ä', 0, -4.44, 'ünïcödé', '1999-12-31 00:00:00', 'abc', 1e10)""",
    """INSERT INTO app.parts (item, label, kind, small, d) VALUES
      (1, 'p', 'abc', 1, '2024-01-01'), (1, 'q', NULL, NULL, NULL),
      (2, 'ä', '', -3, '2000-02-29')""",
    "INSERT INTO side.words VALUES (1, 'été'), (2, 'wort')",
    # From here on the GTIDs of both peers have the same numbers.
    "RESET BINARY LOGS AND GTIDS",
)
