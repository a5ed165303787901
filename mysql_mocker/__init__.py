"""A MySQL cluster in one process: a primary and GTID replicas that lag as they are told to.

    async with MockCluster(replicas=2, lag="300ms") as cluster:
        ...  # any MySQL client at cluster.primary.address, cluster.replicas[0].address

docs/mocker.md is its manual.

It speaks the classic protocol as MySQL 9.7 was measured to speak it: login with
caching_sha2_password with and without TLS, text and binary statements, session trackers, GTIDs in
OK packets under OFF, OWN_GTID and ALL_GTIDS (fact 2.2) with the ways in which they get lost (fact
2.3), WAIT_FOR_EXECUTED_GTID_SET that waits (fact 4.1). SQL runs in SQLite, translated by sqlglot.
Tests run the same generated sessions on it and on MySQL, and compare the answers packet by packet
(tests/mysql_mocker/differential: what it speaks, and which differences are accepted, and why).

Where it is not MySQL:

* One transaction at a time writes on a server; a second writer waits, whatever rows it wants.
* A transaction's snapshot is renewed by its first write.
* SQLite's types, functions and expressions: DECIMAL is a float, integers have 63 bits, values are
  not fitted to their columns (no 1264, 1366, 1406), the time zone is UTC. Text is utf8mb4, whatever
  SET NAMES and its COLLATE say; a column compares it as utf8mb4_0900_ai_ci does, two literals
  compare by bytes.
* There are no query plans, and EXPLAIN shows none. Results of SHOW are described by their values,
  and parameters of statements all alike. Columns that are calculated have the server's types and
  decimals, but not its lengths and flags, and columns of tables keep their flags where they come
  out of a temporary table. A DECIMAL in a user variable is a DOUBLE, and an expression that is NULL
  leaves one of text. Functions that are named with their schema, and functions called with the
  wrong number of arguments, are syntax errors. A syntax error quotes another text than MySQL's, and
  an unknown column is always in the 'field list'.
* FOUND_ROWS() never shows what CREATE TABLE … SELECT, a subquery of a SET, or a statement that
  failed has counted. An UPDATE sets it to 0 where MySQL keeps it, as it sees by an index or by NOT
  NULL that no row fits. The tables in a prepared SET are looked for when it is executed.
* Unknown to it: MyISAM, events, triggers, parameters of stored routines, multi-table UPDATE and
  DELETE, SELECT INTO, LOAD DATA, XA, cursors (a statement that asks for one gets its rows at
  once), compression, privileges. LOCK TABLES is reported but does not lock.
* Replicas run the primary's statements again, with its clock and its random numbers; the binary
  log is purged by PURGE BINARY LOGS TO only.
* A client's statement that changes mysql.gtid_executed is committed at once, even inside a
  transaction; the table's definition cannot be changed. gtid_mode is always ON.
* Parallel workers hold the locks of the rows they are about to write, but write them only when
  it is their turn to commit; an error in the data shows only then. Transactions run in parallel if
  they touch different tables, or different rows that they name by an integer key; definitions, and
  statements about which this is not known, run alone.
* GTID texts that a server silently takes for an empty set (fact 3.1) are errors.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mysql_mocker.blocking_cluster import BlockingCluster
    from mysql_mocker.control.error import ControlError
    from mysql_mocker.mock_cluster import MockCluster

__all__ = ["BlockingCluster", "ControlError", "MockCluster"]


def __getattr__(name: str) -> object:
    """Loads a name when it is used: a test plugin must not load an SQL parser for all tests."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from mysql_mocker import blocking_cluster, mock_cluster
        from mysql_mocker.control import error
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "sqlglot":
            raise
        sentence = "the mocker needs sqlglot: pip install 'tidegate[mock]'"
        raise ImportError(sentence, name="sqlglot") from missing
    return {
        "BlockingCluster": blocking_cluster.BlockingCluster,
        "ControlError": error.ControlError,
        "MockCluster": mock_cluster.MockCluster,
    }[name]
