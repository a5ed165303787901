"""The course of transactions in many situations, each as a transcript (`transcript`)."""

from collections.abc import Callable
from random import Random
from typing import get_args

import pytest

from protocol.constants import AUTOCOMMIT, IN_TRANS
from routing.consistency.decision import ConflictPolicy, TransactionReads
from routing.servers.topology import Role, Server
from routing.session.session import Session
from routing.transaction.replica_snapshot import ReplicaSnapshot
from routing.transaction.stage import TABLE, Event, Stage, after
from routing.unexpected_event import UnexpectedEventError
from tests.routing.transaction.situations import run, take_snapshot
from tests.routing.transaction.transcript import Play, World, gtids

pytestmark = pytest.mark.plain

WORLD = World()
SNAPSHOT = World(reads=TransactionReads.SNAPSHOT)
"""At REPEATABLE READ its transactions may read from a replica's snapshot, and write."""
COMMITTED = World(isolation="READ-COMMITTED")
"""Each statement has a snapshot of its own."""
PRIMARY_ONLY = World(reads=TransactionReads.PRIMARY, isolation="READ-COMMITTED")
DIFFERENT = World(reads=TransactionReads.SNAPSHOT, same=False)
"""The replica's snapshot is not the primary's."""
SERIALIZABLE = World(isolation="SERIALIZABLE")
TRACKED = World(reads=TransactionReads.SNAPSHOT, tracked=True)
"""The client would see where its transactions are open."""


TRANSCRIPTS = {
    # The primary
    "what_commits_by_itself_opens_nothing": WORLD.transcript("""
        >> INSERT INTO t VALUES (1) -> nothing
        << p write | none
        >> SELECT a FROM t -> nothing
        << r1 read | none
        >> CALL p() -> nothing
        << p write | none
        >> COMMIT -> nothing
        << p transaction | none
    """),
    "a_transaction_runs_on_the_primary": WORLD.transcript("""
        >> BEGIN -> open
        << p transaction | primary open
        >> SELECT a FROM t -> open
        << p transaction | primary open
        >> INSERT INTO t VALUES (1) -> open
        << p write | primary open
        >> COMMIT AND CHAIN -> open
        << p transaction | primary open
        >> COMMIT -> nothing
        << p transaction | none
        >> SELECT a FROM t -> nothing
        << r1 read | none
    """),
    "a_ddl_statement_commits": COMMITTED.transcript("""
        >> BEGIN -> open
        << p transaction | per_statement open
        >> CREATE TABLE u (a INT) -> nothing
        << p write | none
        >> BEGIN -> open
        << p transaction | per_statement open
        >> SELECT a FROM t -> open
        << p unknown_required | per_statement open
        >> ALTER TABLE u ADD b INT -> nothing
        << p write | none
        >> SELECT a FROM t -> nothing
        << p unknown_required | none
    """),
    "an_xa_transaction_runs_on_the_primary": COMMITTED.transcript("""
        >> XA START 'x' -> open
        << p transaction | primary open
        >> SELECT a FROM t -> open
        << p transaction | primary open
        >> XA END 'x' -> open
        << p transaction | primary open
        >> XA PREPARE 'x' -> nothing
        << p transaction | none
        >> XA COMMIT 'x' -> nothing
        << p transaction | none
    """),
    "serializable_transactions_read_on_the_primary": SERIALIZABLE.transcript("""
        >> START TRANSACTION READ ONLY -> open, read only
        << p transaction | read_only_on_primary open
        >> SELECT a FROM t -> open, read only
        << p transaction | read_only_on_primary open
        >> COMMIT -> nothing
        << p transaction | none
        >> SET autocommit = 0 -> manual
        << p session | none manual
        >> SELECT a FROM t -> open, manual
        << p transaction | primary open manual
    """),
    "rules_keep_all_reads_of_transactions_that_write": PRIMARY_ONLY.transcript("""
        >> BEGIN -> open
        << p transaction | per_statement open
        >> SELECT a FROM t -> open
        << p transaction | per_statement open
        >> COMMIT -> nothing
        << p transaction | none
        >> SET autocommit = 0 -> manual
        << p session | none manual
        >> SELECT a FROM t -> open, manual
        << p transaction | per_statement open manual
    """),
    # Errors, which have no status flags
    "an_error_has_no_status_flags": WORLD.transcript("""
        >> INSERT INTO t VALUES (1) -> error
        << p write | primary open uncertain
        >> SELECT a FROM t -> nothing
        << p unknown_required | none
        >> SELECT a FROM t -> error
        << p unknown_required | none
        >> SELECT a FROM t -> nothing
        << p unknown_required | none
    """),
    "a_transaction_may_have_ended_by_an_error": WORLD.transcript("""
        >> BEGIN -> open
        << p transaction | primary open
        >> UPDATE t SET a = 1 -> error
        << p write | primary open uncertain
        >> SELECT a FROM t -> nothing
        << p unknown_required | none
        >> SELECT a FROM t -> nothing
        << p unknown_required | none
    """),
    "a_read_only_transaction_after_an_error": WORLD.transcript("""
        >> START TRANSACTION READ ONLY -> open, read only
        << p transaction | read_only open
        >> SELECT a FROM t -> open, read only
        << r1 read | read_only_on_replica open; r1 begins
        >> INSERT INTO t VALUES (1) -> error
        << p write | read_only_on_replica open uncertain
        >> SELECT a FROM t -> open, read only
        << p transaction | read_only_on_replica open; snapshot_split
        >> SELECT a FROM t -> open, read only
        << r1 transaction | read_only_on_replica open
        >> UPDATE t SET a = 1 -> error
        << p write | read_only_on_replica open uncertain
        >> SELECT @a := 1 -> nothing
        << p session | none; r1 ends
        >> SELECT a FROM t -> nothing
        << p unknown_required | none
    """),
    "per_statement_reads_after_an_error": COMMITTED.transcript("""
        >> BEGIN -> open
        << p transaction | per_statement open
        >> SELECT a FROM t -> open
        << r1 read | per_statement open; r1 begins
        >> UPDATE t SET a = 1 -> error
        << p write | per_statement_moved open uncertain; r1 ends
        >> SELECT a FROM t -> open
        << p unknown_required | per_statement_moved open
        >> COMMIT -> nothing
        << p transaction | none
    """),
    "a_read_that_fails_on_a_replica_changes_nothing": COMMITTED.transcript("""
        >> BEGIN -> open
        << p transaction | per_statement open
        >> SELECT a FROM t -> error
        << r1 read | per_statement open; r1 begins
        >> SELECT a FROM t -> open
        << r1 read | per_statement open
    """),
    "without_autocommit_any_error_may_have_opened_one": WORLD.transcript("""
        >> SET autocommit = 0 -> manual
        << p session | none manual
        >> SHOW TABLES -> error
        << p transaction | primary open uncertain manual
        >> SELECT a FROM t -> open, manual
        << p transaction | primary open manual
        >> COMMIT -> manual
        << p transaction | none manual
    """),
    "the_proxys_settings_tell_what_an_error_did_not": WORLD.transcript("""
        >> BEGIN -> open
        << p transaction | primary open
        >> UPDATE t SET a = 1 -> error
        << p write | primary open uncertain
        -- restored nothing
        << none
        >> SELECT a FROM t -> nothing
        << p unknown_required | none
        >> BEGIN -> open
        << p transaction | primary open
        >> UPDATE t SET a = 1 -> error
        << p write | primary open uncertain
        -- restored open
        << primary open
        >> SELECT a FROM t -> open
        << p unknown_required | primary open
    """),
    "the_proxys_settings_tell_that_a_read_only_transaction_has_ended": WORLD.transcript("""
        >> START TRANSACTION READ ONLY -> open, read only
        << p transaction | read_only open
        >> SELECT a FROM t -> open, read only
        << r1 read | read_only_on_replica open; r1 begins
        >> INSERT INTO t VALUES (1) -> error
        << p write | read_only_on_replica open uncertain
        -- restored nothing
        << read_only_on_replica
        >> SELECT a FROM t -> nothing
        << r1 transaction | read_only_on_replica
        >> SELECT a FROM t -> nothing
        << r1 transaction | read_only_on_replica
    """),
    # Where results end with an EOF.
    "a_ping_tells_what_an_error_did_not": COMMITTED.transcript("""
        >> CALL p() -> error
        << p write | primary open uncertain
        -- pinged nothing
        << none uncertain
        >> SELECT a FROM t -> nothing
        << p unknown_required | none
        >> BEGIN -> open
        << p transaction | per_statement open
        >> CALL p() -> error
        << p write | per_statement_moved open uncertain
        -- pinged nothing
        << per_statement_moved uncertain
        >> SELECT a FROM t -> nothing
        << p unknown_required | none
        >> BEGIN -> open
        << p transaction | per_statement open
        >> CALL p() -> error
        << p write | per_statement_moved open uncertain
        -- pinged open
        << per_statement_moved open uncertain
        >> SELECT a FROM t -> open
        << p unknown_required | per_statement_moved open
    """),
    "what_failed_told_nothing_of_a_transaction_that_reads_per_statement": COMMITTED.transcript("""
        >> BEGIN -> open
        << p transaction | per_statement open
        >> CALL p() -> error
        << p write | per_statement_moved open uncertain
        -- restored nothing
        << per_statement_moved
        >> SHOW TABLES -> error
        << p unknown_required | per_statement_moved
        >> SELECT a FROM t -> nothing
        << p unknown_required | none
        >> COMMIT -> nothing
        << p transaction | none
    """),
    # READ ONLY
    "a_read_only_transaction_reads_one_replicas_snapshot": WORLD.transcript("""
        >> START TRANSACTION READ ONLY -> open, read only
        << p transaction | read_only open
        >> SELECT 1 -> open, read only
        << r1 read | read_only_on_replica open; r1 begins
        >> SELECT a FROM t -> open, read only
        << r1 transaction | read_only_on_replica open
        >> SHOW WARNINGS -> open, read only
        << r1 diagnostic | read_only_on_replica open
        >> SELECT a FROM t -> open, read only
        << r1 transaction | read_only_on_replica open
        >> ROLLBACK -> nothing
        << p transaction | none; r1 ends
        >> SELECT a FROM t -> nothing
        << r1 read | none
    """),
    # On the primary, too.
    "its_first_read_takes_the_snapshot": WORLD.transcript("""
        >> START TRANSACTION READ ONLY -> open, read only
        << p transaction | read_only open
        >> SELECT @a := a FROM t -> open, read only
        << p session | read_only_on_primary open
        >> SELECT a FROM t -> open, read only
        << p transaction | read_only_on_primary open
        >> COMMIT -> nothing
        << p transaction | none
    """),
    "a_consistent_snapshot_is_the_primarys": WORLD.transcript("""
        >> START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY -> open, read only
        << p transaction | read_only_on_primary open
        >> SELECT a FROM t -> open, read only
        << p transaction | read_only_on_primary open
        >> COMMIT -> nothing
        << p transaction | none
    """),
    # It shows another snapshot than the replica's.
    "what_reads_data_on_the_primary_is_counted": WORLD.transcript("""
        >> START TRANSACTION READ ONLY -> open, read only
        << p transaction | read_only open
        >> SELECT a FROM t -> open, read only
        << r1 read | read_only_on_replica open; r1 begins
        >> SELECT @a := a FROM t -> open, read only
        << p session | read_only_on_replica open; snapshot_split
        >> SELECT a FROM t -> open, read only
        << r1 transaction | read_only_on_replica open
    """),
    # A chained transaction has the isolation level of the one before.
    "read_only_transactions_are_chained": WORLD.transcript("""
        >> START TRANSACTION READ ONLY -> open, read only
        << p transaction | read_only open
        >> SELECT a FROM t -> open, read only
        << r1 read | read_only_on_replica open; r1 begins
        >> COMMIT AND CHAIN -> open, read only
        << p transaction | read_only open; r1 ends
        >> SELECT a FROM t -> open, read only
        << r1 read | read_only_on_replica open; r1 begins
        >> SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED -> open, read only
        << p transaction | read_only_on_replica open
        -- isolation READ-COMMITTED
        << read_only_on_replica open
        >> SELECT a FROM t -> open, read only
        << r1 transaction | read_only_on_replica open
        >> COMMIT AND CHAIN -> open, read only
        << p transaction | read_only_on_primary open; r1 ends
        >> SELECT a FROM t -> open, read only
        << p transaction | read_only_on_primary open
    """),
    "a_savepoint_ends_no_read_only_transaction": WORLD.transcript("""
        >> START TRANSACTION READ ONLY -> open, read only
        << p transaction | read_only open
        >> SELECT a FROM t -> open, read only
        << r1 read | read_only_on_replica open; r1 begins
        >> SAVEPOINT s -> open, read only
        << p transaction | read_only_on_replica open
        >> ROLLBACK TO s -> open, read only
        << p transaction | read_only_on_replica open
        >> SELECT a FROM t -> open, read only
        << r1 transaction | read_only_on_replica open
    """),
    "several_statements_may_have_begun_another": WORLD.transcript("""
        >> START TRANSACTION READ ONLY -> open, read only
        << p transaction | read_only open
        >> SELECT a FROM t -> open, read only
        << r1 read | read_only_on_replica open; r1 begins
        >> COMMIT; START TRANSACTION READ ONLY -> open, read only
        << p write | read_only_on_primary open; r1 ends; snapshot_split
        >> SELECT a FROM t -> open, read only
        << p transaction | read_only_on_primary open
        >> COMMIT -> nothing
        << p transaction | none
        >> START TRANSACTION READ ONLY -> open, read only
        << p transaction | read_only open
        >> CALL p() -> open, read only
        << p write | read_only_on_primary open
        >> SELECT a FROM t -> open, read only
        << p transaction | read_only_on_primary open
    """),
    "set_autocommit_ends_a_read_only_transaction": WORLD.transcript("""
        >> SET autocommit = 0 -> manual + autocommit=OFF
        << p session | none manual
        >> START TRANSACTION READ ONLY -> open, read only, manual
        << p transaction | read_only open manual
        >> SELECT a FROM t -> open, read only, manual
        << r1 read | read_only_on_replica open manual; r1 manual; r1 begins
        >> SET autocommit = 1 -> nothing + autocommit=ON
        << p session | none set next read only; r1 autocommits
        >> SELECT a FROM t -> nothing
        << p transaction | none
        >> SELECT a FROM t -> nothing
        << r1 read | none
    """),
    "an_isolation_level_of_its_own_keeps_it": WORLD.transcript("""
        >> SET TRANSACTION ISOLATION LEVEL READ COMMITTED -> nothing
        << p transaction | none set isolation
        >> START TRANSACTION READ ONLY -> open, read only
        << p transaction | read_only_on_primary open
        >> SELECT a FROM t -> open, read only
        << p transaction | read_only_on_primary open
        >> COMMIT -> nothing
        << p transaction | none
        >> SELECT a FROM t -> nothing
        << r1 read | none
    """),
    "a_read_only_transaction_reads_per_statement": COMMITTED.transcript("""
        >> START TRANSACTION READ ONLY -> open, read only
        << p transaction | read_only_per_statement open
        >> SELECT a FROM t -> open, read only
        << r1 read | read_only_per_statement open; r1 begins
        >> SELECT @a := a FROM t -> open, read only
        << p session | read_only_per_statement open
        >> SELECT a FROM t -> open, read only
        << r1 read | read_only_per_statement open
        >> COMMIT AND CHAIN -> open, read only
        << p transaction | read_only_per_statement open; r1 ends
        >> SELECT a FROM t -> open, read only
        << r1 read | read_only_per_statement open; r1 begins
        >> COMMIT -> nothing
        << p transaction | none; r1 ends
    """),
    "an_isolation_level_that_was_set_later_is_not_its_own": COMMITTED.transcript("""
        >> START TRANSACTION READ ONLY -> open, read only
        << p transaction | read_only_per_statement open
        -- isolation REPEATABLE-READ
        << read_only_per_statement open
        >> SELECT a FROM t -> open, read only
        << p transaction | read_only_per_statement open
        -- isolation READ-COMMITTED
        << read_only_per_statement open
        >> SELECT a FROM t -> open, read only
        << r1 read | read_only_per_statement open; r1 begins
    """),
    "set_transaction_read_only": WORLD.transcript("""
        >> SET TRANSACTION READ ONLY -> nothing
        << p transaction | none set next read only
        >> SELECT a FROM t -> nothing
        << p transaction | none
        >> SET TRANSACTION READ ONLY -> nothing
        << p transaction | none set next read only
        >> BEGIN -> open, read only
        << p transaction | read_only open
        >> SELECT a FROM t -> open, read only
        << r1 read | read_only_on_replica open; r1 begins
        >> COMMIT -> nothing
        << p transaction | none; r1 ends
        >> SET TRANSACTION READ ONLY -> nothing
        << p transaction | none set next read only
        >> INSERT INTO t VALUES (1) -> error
        << p write | primary open uncertain set
        >> CALL p() -> nothing
        << p write | none set
        >> COMMIT -> nothing
        << p transaction | none
    """),
    "the_client_tracks_its_transactions": TRACKED.transcript("""
        >> START TRANSACTION READ ONLY -> open, read only
        << p transaction | read_only_on_primary open
        >> SELECT a FROM t -> open, read only
        << p transaction | read_only_on_primary open
        >> COMMIT -> nothing
        << p transaction | none
        >> BEGIN -> open
        << p transaction | primary open
        >> SELECT a FROM t -> open
        << p transaction | primary open
        >> COMMIT -> nothing
        << p transaction | none
        >> SET autocommit = 0 -> manual
        << p session | none manual
        >> SELECT a FROM t -> open, manual
        << p transaction | primary open manual
    """),
    "what_prepares_a_statement_runs_nothing": WORLD.transcript("""
        >> START TRANSACTION READ ONLY -> open, read only
        << p transaction | read_only open
        >> COM_STMT_PREPARE COMMIT -> open, read only
        << p write | read_only open
        >> COM_STMT_PREPARE SELECT a FROM t -> open, read only
        << p write | read_only open
        >> SELECT a FROM t -> open, read only
        << r1 read | read_only_on_replica open; r1 begins
        >> COM_STMT_PREPARE COMMIT -> open, read only
        << p write | read_only_on_replica open
        >> COM_PING -> open, read only
        << p write | read_only_on_replica open
        >> COM_STMT_EXECUTE COMMIT -> nothing
        << p transaction | none; r1 ends
    """),
    # Per statement
    "reads_go_to_replicas_until_something_is_written": COMMITTED.transcript("""
        >> BEGIN -> open
        << p transaction | per_statement open
        >> SELECT a FROM t -> open
        << r1 read | per_statement open; r1 begins
        >> SELECT a FROM t -> open
        << r1 read | per_statement open
        >> SHOW WARNINGS -> open
        << r1 diagnostic | per_statement open
        >> USE app -> open
        << p session | per_statement open
        >> SELECT a FROM t -> open
        << r1 read | per_statement open
        >> INSERT INTO t VALUES (1) -> open
        << p write | per_statement_moved open; r1 ends
        >> SELECT a FROM t -> open
        << p transaction | per_statement_moved open
        >> COMMIT -> nothing
        << p transaction | none
    """),
    "per_statement_reads_are_chained": COMMITTED.transcript("""
        >> BEGIN -> open
        << p transaction | per_statement open
        >> UPDATE t SET a = 1 -> open
        << p write | per_statement_moved open
        >> COMMIT AND CHAIN -> open
        << p transaction | per_statement open
        >> SELECT a FROM t -> open
        << r1 read | per_statement open; r1 begins
        >> ROLLBACK AND CHAIN -> open
        << p transaction | per_statement open; r1 ends
        >> SELECT a FROM t -> open
        << r1 read | per_statement open; r1 begins
        >> SAVEPOINT s -> open
        << p transaction | per_statement_moved open; r1 ends
        >> SELECT a FROM t -> open
        << p transaction | per_statement_moved open
        >> ROLLBACK TO s -> open
        << p transaction | per_statement_moved open
        >> COMMIT -> nothing
        << p transaction | none
    """),
    "what_may_have_ended_it": COMMITTED.transcript("""
        >> BEGIN -> open
        << p transaction | per_statement open
        >> SELECT a FROM t -> open
        << r1 read | per_statement open; r1 begins
        >> CALL p() -> open
        << p write | primary open; r1 ends
        >> SELECT a FROM t -> open
        << p transaction | primary open
        >> BEGIN -> open
        << p transaction | per_statement open
        >> SELECT 1; SELECT 2 -> open
        << p write | primary open
        >> SELECT a FROM t -> open
        << p transaction | primary open
        >> BEGIN -> open
        << p transaction | per_statement open
        >> START TRANSACTION READ ONLY -> open, read only
        << p transaction | read_only_per_statement open
        >> SELECT a FROM t -> open, read only
        << r1 read | read_only_per_statement open; r1 begins
        >> BEGIN -> open
        << p transaction | primary open; r1 ends
        >> SELECT a FROM t -> open
        << p transaction | primary open
    """),
    "a_consistent_snapshot_is_not_read_per_statement": COMMITTED.transcript("""
        >> START TRANSACTION WITH CONSISTENT SNAPSHOT -> open
        << p transaction | primary open
        >> SELECT a FROM t -> open
        << p transaction | primary open
        >> COMMIT AND CHAIN -> open
        << p transaction | primary open
        >> SELECT a FROM t -> open
        << p transaction | primary open
    """),
    "set_transaction_isolation_level": COMMITTED.transcript("""
        >> SET TRANSACTION ISOLATION LEVEL REPEATABLE READ -> nothing
        << p transaction | none set isolation
        >> BEGIN -> open
        << p transaction | primary open
        >> SELECT a FROM t -> open
        << p transaction | primary open
        >> COMMIT -> nothing
        << p transaction | none
        >> BEGIN -> open
        << p transaction | per_statement open
        >> SELECT a FROM t -> open
        << r1 read | per_statement open; r1 begins
    """),
    "a_suspect_session_reads_on_the_primary": COMMITTED.transcript("""
        >> BEGIN -> open
        << p transaction | per_statement open
        -- suspect
        << per_statement open
        >> SELECT a FROM t -> open
        << p transaction | per_statement open
        >> SELECT a FROM t -> open
        << r1 read | per_statement open; r1 begins
    """),
    # Transactions that a read opens
    "without_autocommit_a_read_opens_one": COMMITTED.transcript("""
        >> SET autocommit = 0 -> manual
        << p session | none manual
        >> SELECT 1 -> manual
        << r1 read | none manual to end; r1 manual
        >> SELECT a FROM t -> open, read only, manual
        << r1 read | per_statement open implied manual; r1 autocommits; r1 manual
        >> SELECT a FROM t -> open, read only, manual
        << r1 read | per_statement open implied manual
        >> INSERT INTO t VALUES (1) -> open, manual
        << p write | per_statement_moved open manual; p begins; r1 autocommits
        >> SELECT a FROM t -> open, manual
        << p transaction | per_statement_moved open manual
        >> COMMIT -> manual
        << p transaction | none manual
        >> SELECT a FROM t -> open, read only, manual
        << r1 read | per_statement open implied manual; r1 manual
        >> COMMIT -> manual
        << p transaction | none manual; p begins; r1 autocommits
        >> SET autocommit = 1 -> nothing
        << p session | none
    """),
    "what_reads_no_table_opens_none": COMMITTED.transcript("""
        >> SET autocommit = 0 -> manual
        << p session | none manual
        >> SELECT 1 FROM DUAL -> manual
        << r1 read | none manual to end; r1 manual
        >> SELECT 2 -> manual
        << r1 read | none manual to end; r1 autocommits; r1 manual
        >> SHOW WARNINGS -> manual
        << r1 diagnostic | none manual to end
        >> INSERT INTO t VALUES (1) -> open, manual
        << p write | primary open manual; r1 autocommits
    """),
    "a_first_read_that_fails_opens_none": COMMITTED.transcript("""
        >> SET autocommit = 0 -> manual
        << p session | none manual
        >> SELECT a FROM t -> error
        << r1 read | none manual to end; r1 manual
        >> SELECT a FROM t -> open, read only, manual
        << r1 read | per_statement open implied manual; r1 autocommits; r1 manual
        >> ROLLBACK -> manual
        << p transaction | none manual; p begins; r1 autocommits
    """),
    "a_read_opens_a_read_only_one": WORLD.transcript("""
        >> SET SESSION TRANSACTION READ ONLY -> nothing + transaction_read_only=ON
        << p transaction | none next read only
        >> SET autocommit = 0 -> manual + autocommit=OFF
        << p session | none manual next read only
        >> SELECT a FROM t -> open, read only, manual
        << r1 read | read_only_on_replica open implied manual next read only; r1 manual
        >> SELECT a FROM t -> open, read only, manual
        << r1 transaction | read_only_on_replica open implied manual next read only
        >> SELECT @a := 1 -> open, read only, manual
        << p session | read_only_on_replica open manual next read only; p begins
        >> COMMIT -> manual
        << p transaction | none manual next read only; r1 autocommits
        >> SELECT a FROM t -> open, read only, manual
        << r1 read | read_only_on_replica open implied manual next read only; r1 manual
        >> SET SESSION TRANSACTION READ WRITE -> open, read only, manual + transaction_read_only=OFF
        << p transaction | read_only_on_replica open manual; p begins
        >> COMMIT -> manual
        << p transaction | none manual; r1 autocommits
        >> SELECT a FROM t -> open, manual
        << p transaction | primary open manual
    """),
    "a_read_opens_what_set_transaction_said": WORLD.transcript("""
        >> SET autocommit = 0 -> manual
        << p session | none manual
        >> SET TRANSACTION READ ONLY -> manual
        << p transaction | none manual set next read only
        >> SELECT a FROM t -> open, read only, manual
        << r1 read | read_only_on_replica open implied manual; r1 manual
        >> SELECT a FROM t -> open, read only, manual
        << r1 transaction | read_only_on_replica open implied manual
        >> COMMIT -> manual
        << p transaction | none manual; p begins; r1 autocommits
        >> SELECT a FROM t -> open, manual
        << p transaction | primary open manual
    """),
    # No status flag tells of it: with autocommit off it is set before anything opens one.
    "a_savepoint_without_a_transaction": COMMITTED.transcript("""
        >> SET autocommit = 0 -> manual
        << p session | none manual
        >> SAVEPOINT s -> manual
        << p transaction | none manual savepoint
        >> SELECT a FROM t -> open, manual
        << p transaction | primary open manual
        >> COMMIT -> manual
        << p transaction | none manual
        >> CALL p() -> manual
        << p write | none manual savepoint
        >> SELECT 1 -> manual
        << p transaction | none manual savepoint
        >> ROLLBACK -> manual
        << p transaction | none manual
        >> SELECT a FROM t -> open, read only, manual
        << r1 read | per_statement open implied manual; r1 manual
    """),
    "what_fails_may_have_set_a_savepoint": COMMITTED.transcript("""
        >> SET autocommit = 0 -> manual
        << p session | none manual
        >> CALL p() -> error
        << p write | primary open uncertain manual savepoint
        >> SELECT 1 -> manual
        << p unknown_required | none manual savepoint
        >> SELECT a FROM t -> open, manual
        << p unknown_required | primary open manual
    """),
    # Its flag says on until the client sets the variable.
    "a_server_that_begins_sessions_without_autocommit": World(
        isolation="READ-COMMITTED", autocommit=False
    ).transcript("""
        >> SELECT a FROM t -> open
        << p transaction | primary open manual untold
        >> COMMIT -> nothing
        << p transaction | none manual untold
        >> SET autocommit = 0 -> manual + autocommit=OFF
        << p session | none manual untold
        >> SELECT a FROM t -> open
        << p transaction | primary open manual untold
        >> COMMIT -> nothing
        << p transaction | none manual untold
        >> SET autocommit = 1 -> nothing + autocommit=ON
        << p session | none
        >> SET autocommit = 0 -> manual + autocommit=OFF
        << p session | none manual
        >> SELECT a FROM t -> open, read only, manual
        << r1 read | per_statement open implied manual; r1 manual
        -- reset
        << none manual untold
        >> SELECT a FROM t -> open
        << p transaction | primary open manual untold
    """),
    "a_read_is_left_that_was_to_open_one": COMMITTED.transcript("""
        >> SET autocommit = 0 -> manual
        << p session | none manual
        >> SELECT a FROM t
        << r1 read | per_statement implied manual; r1 manual
        -- leaves r1
        << none manual; r1 autocommits
        >> SELECT a FROM t
        << r1 read | per_statement implied manual; r1 manual
        -- answers open, read only, manual
        << per_statement open implied manual
        >> SELECT a FROM t
        << r1 read | per_statement open implied manual
        -- leaves r1
        << per_statement open implied manual; r1 autocommits
        >> SELECT a FROM t -> open, read only, manual
        << r1 read | per_statement open implied manual; r1 manual
    """),
    # A later read of a snapshot is not what takes it.
    "a_read_is_left_that_was_to_take_the_snapshot": WORLD.transcript("""
        >> START TRANSACTION READ ONLY -> open, read only
        << p transaction | read_only open
        >> SELECT a FROM t
        << r1 read | read_only_on_replica open; r1 begins
        -- leaves r1
        << read_only open; r1 ends
        >> SELECT a FROM t -> open, read only
        << r1 read | read_only_on_replica open; r1 begins
        >> SELECT a FROM t
        << r1 transaction | read_only_on_replica open
        -- leaves r1
        << read_only_on_replica open; r1 ends
        >> COMMIT -> nothing
        << p transaction | none
        >> SET autocommit = 0 -> manual
        << p session | none manual
        >> SET TRANSACTION READ ONLY -> manual
        << p transaction | none manual set next read only
        >> SELECT a FROM t
        << r1 read | read_only_on_replica implied manual set next read only; r1 manual
        -- leaves r1
        << none manual set next read only; r1 autocommits
    """),
    # A replica's snapshot
    "a_replicas_snapshot_is_read_until_the_transaction_moves": SNAPSHOT.transcript("""
        >> BEGIN -> open
        << p transaction | snapshot open
        >> SELECT 1 -> open
        << p transaction | snapshot open
        >> SELECT a FROM t -> open
        << r1 read | snapshot_on_replica open; r1 takes a snapshot
        >> SELECT a FROM t -> open
        << r1 transaction | snapshot_on_replica open
        >> UPDATE t SET a = 1 -> open
        << p write | snapshot_moved open; p takes a snapshot; r1 ends
        >> SELECT a FROM t -> open
        << p transaction | snapshot_moved open
        >> COMMIT -> nothing
        << p transaction | none
    """),
    "what_reads_data_on_the_primary_needs_the_same_snapshot": SNAPSHOT.transcript("""
        >> BEGIN -> open
        << p transaction | snapshot open
        >> SELECT a FROM t -> open
        << r1 read | snapshot_on_replica open; r1 takes a snapshot
        >> SELECT @a := a FROM t -> open
        << p session | snapshot_moved open; p takes a snapshot; r1 ends
        >> SELECT a FROM t -> open
        << p transaction | snapshot_moved open
        >> COMMIT AND CHAIN -> open
        << p transaction | snapshot open
        >> SELECT a FROM t -> open
        << r1 read | snapshot_on_replica open; r1 takes a snapshot
        >> COMMIT -> nothing
        << p transaction | none; r1 ends
    """),
    # The transaction is rolled back, and the next one is the primary's.
    "different_snapshots_are_a_conflict": DIFFERENT.transcript("""
        >> BEGIN -> open
        << p transaction | snapshot open
        >> SELECT a FROM t -> open
        << r1 read | snapshot_on_replica open; r1 takes a snapshot
        >> UPDATE t SET a = 1 -> open
        << p write | snapshot_moved open; p takes a snapshot; r1 ends
        >> SELECT a FROM t
        << p conflict | none retry; p rolls back; split_conflict
        >> BEGIN -> open
        << p transaction | primary open retry
        >> SELECT a FROM t -> open
        << p transaction | primary open retry
        >> UPDATE t SET a = 1 -> open
        << p write | primary open retry
        >> COMMIT -> nothing
        << p transaction | none
        >> BEGIN -> open
        << p transaction | snapshot open
        >> SELECT a FROM t -> open
        << r1 read | snapshot_on_replica open; r1 takes a snapshot
        >> COMMIT -> nothing
        << p transaction | none; r1 ends
    """),
    "a_conflict_is_answered_openly": World(
        reads=TransactionReads.SNAPSHOT, same=False, conflict=ConflictPolicy.ALLOW
    ).transcript("""
        >> BEGIN -> open
        << p transaction | snapshot open
        >> SELECT a FROM t -> open
        << r1 read | snapshot_on_replica open; r1 takes a snapshot
        >> CALL p() -> open
        << p write | primary open; p takes a snapshot; r1 ends; split_conflict
        >> SELECT a FROM t -> open
        << p transaction | primary open
        >> COMMIT -> nothing
        << p transaction | none
    """),
    "a_snapshot_that_is_not_known_is_not_the_same": World(
        reads=TransactionReads.SNAPSHOT, exact=False
    ).transcript("""
        >> BEGIN -> open
        << p transaction | snapshot open
        >> SELECT a FROM t -> open
        << r1 read | snapshot_on_replica open; r1 takes a snapshot
        >> SELECT a FROM t FOR UPDATE -> open
        << p write | snapshot_moved open; p takes a snapshot; r1 ends
        >> SELECT a FROM t
        << p conflict | none retry; p rolls back; split_conflict
    """),
    "a_snapshot_that_the_primary_takes_first": SNAPSHOT.transcript("""
        >> BEGIN -> open
        << p transaction | snapshot open
        >> INSERT INTO t VALUES (1) -> open
        << p write | snapshot_on_primary open
        >> SELECT a FROM t -> open
        << p transaction | snapshot_on_primary open
        >> INSERT INTO t VALUES (1) -> error
        << p write | primary open uncertain
        >> SELECT a FROM t -> open
        << p unknown_required | primary open
        >> COMMIT -> nothing
        << p transaction | none
    """),
    "a_write_that_fails_ends_a_replicas_snapshot": SNAPSHOT.transcript("""
        >> BEGIN -> open
        << p transaction | snapshot open
        >> SELECT a FROM t -> open
        << r1 read | snapshot_on_replica open; r1 takes a snapshot
        >> UPDATE t SET a = 1 -> error
        << p write | snapshot_moved open uncertain; p takes a snapshot; r1 ends
        >> SELECT a FROM t -> open
        << p transaction | snapshot_moved open
        >> COMMIT -> nothing
        << p transaction | none
        >> BEGIN -> open
        << p transaction | snapshot open
        >> INSERT INTO t VALUES (1) -> error
        << p write | primary open uncertain
        >> SELECT a FROM t -> open
        << p unknown_required | primary open
        >> COMMIT -> nothing
        << p transaction | none
    """),
    "a_ddl_statement_ends_a_replicas_snapshot": SNAPSHOT.transcript("""
        >> BEGIN -> open
        << p transaction | snapshot open
        >> SELECT a FROM t -> open
        << r1 read | snapshot_on_replica open; r1 takes a snapshot
        >> CREATE TABLE u (a INT) -> nothing
        << p write | none; p takes a snapshot; r1 ends
        >> SELECT a FROM t -> nothing
        << p unknown_required | none
    """),
    "a_savepoint_moves_a_replicas_snapshot": SNAPSHOT.transcript("""
        >> BEGIN -> open
        << p transaction | snapshot open
        >> SELECT a FROM t -> open
        << r1 read | snapshot_on_replica open; r1 takes a snapshot
        >> SAVEPOINT s -> open
        << p transaction | snapshot_moved open; p takes a snapshot; r1 ends
        >> ROLLBACK TO s -> open
        << p transaction | snapshot_moved open
        >> SELECT a FROM t -> open
        << p transaction | snapshot_moved open
        >> ROLLBACK -> nothing
        << p transaction | none
    """),
    "a_read_opens_a_replicas_snapshot": SNAPSHOT.transcript("""
        >> SET autocommit = 0 -> manual
        << p session | none manual
        >> SELECT 1 -> manual
        << p transaction | none manual
        >> SELECT a FROM t -> open, read only, manual
        << r1 read | snapshot_on_replica open implied manual; r1 manual; r1 takes a snapshot
        >> UPDATE t SET a = 1 -> open, manual
        << p write | snapshot_moved open manual; p takes a snapshot; r1 autocommits
        >> COMMIT -> manual
        << p transaction | none manual
        >> SELECT a FROM t -> open, read only, manual
        << r1 read | snapshot_on_replica open implied manual; r1 manual; r1 takes a snapshot
        >> COMMIT -> manual
        << p transaction | none manual; p begins; r1 autocommits
    """),
    "a_first_read_of_a_replicas_snapshot_fails": SNAPSHOT.transcript("""
        >> SET autocommit = 0 -> manual
        << p session | none manual
        >> SELECT a FROM t -> error
        << r1 read | none manual to end; r1 manual; r1 takes a snapshot
        >> SHOW WARNINGS -> manual
        << r1 diagnostic | none manual to end
        >> INSERT INTO t VALUES (1) -> open, manual
        << p write | primary open manual; r1 autocommits
    """),
    "a_read_is_left_that_was_to_take_a_replicas_snapshot": SNAPSHOT.transcript("""
        >> BEGIN -> open
        << p transaction | snapshot open
        >> SELECT a FROM t
        << r1 read | snapshot_on_replica open; r1 takes a snapshot
        -- leaves r1
        << snapshot open; r1 ends
        >> SELECT a FROM t -> open
        << r1 read | snapshot_on_replica open; r1 takes a snapshot
        >> COMMIT -> nothing
        << p transaction | none; r1 ends
        >> SET autocommit = 0 -> manual
        << p session | none manual
        >> SELECT a FROM t
        << r1 read | snapshot_on_replica implied manual; r1 manual; r1 takes a snapshot
        -- leaves r1
        << none manual; r1 autocommits
    """),
    "set_autocommit_ends_a_replicas_snapshot": SNAPSHOT.transcript("""
        >> SET autocommit = 0 -> manual
        << p session | none manual
        >> SELECT a FROM t -> open, read only, manual
        << r1 read | snapshot_on_replica open implied manual; r1 manual; r1 takes a snapshot
        >> SET autocommit = 1 -> nothing
        << p session | none; p takes a snapshot; r1 autocommits
        >> SELECT a FROM t -> nothing
        << r1 read | none
    """),
    # While there is no primary
    "the_primary_hears_of_a_transaction_with_its_first_write": WORLD.transcript("""
        -- begins
        << snapshot open implied
        >> INSERT INTO t VALUES (1) -> open
        << p write | snapshot_on_primary open; p begins
        >> SELECT a FROM t -> open
        << p transaction | snapshot_on_primary open
        >> COMMIT -> nothing
        << p transaction | none
    """),
    "a_transaction_has_read_before_it_writes": WORLD.transcript("""
        -- begins read write
        << snapshot open implied
        >> SELECT a FROM t -> open, read only
        << r1 read | snapshot_on_replica open implied; r1 takes a snapshot
        >> INSERT INTO t VALUES (1) -> open
        << p write | snapshot_moved open; p takes a snapshot; r1 ends
        >> COMMIT -> nothing
        << p transaction | none
    """),
    "a_read_only_transaction_begins_without_the_primary": WORLD.transcript("""
        -- begins read only
        << read_only open implied
        >> SELECT a FROM t -> open, read only
        << r1 read | read_only_on_replica open implied; r1 begins
        -- begins read only
        << read_only open implied; r1 ends
        >> SELECT a FROM t -> open, read only
        << r1 read | read_only_on_replica open implied; r1 begins
        >> INSERT INTO t VALUES (1) -> error
        << p write | read_only_on_replica open uncertain; p begins
        >> ROLLBACK -> nothing
        << p transaction | none; r1 ends
    """),
    "a_transaction_that_reads_per_statement_begins_without_the_primary": COMMITTED.transcript("""
        -- begins
        << per_statement open implied
        >> SELECT a FROM t -> open, read only
        << r1 read | per_statement open implied; r1 begins
        >> INSERT INTO t VALUES (1) -> open
        << p write | per_statement_moved open; p begins; r1 ends
        >> COMMIT -> nothing
        << p transaction | none
    """),
    "none_begins_while_another_is_the_primarys": WORLD.transcript("""
        >> BEGIN -> open
        << p transaction | primary open
        -- begins
        << primary open
    """),
    # Lost replicas
    "the_replica_of_a_read_only_snapshot_is_lost": WORLD.transcript("""
        >> START TRANSACTION READ ONLY -> open, read only
        << p transaction | read_only open
        >> SELECT a FROM t -> open, read only
        << r1 read | read_only_on_replica open; r1 begins
        -- breaks r1
        << read_only_on_replica open
        >> SELECT a FROM t
        << r1 is lost | read_only_on_replica open
        >> COMMIT -> nothing
        << p transaction | none
    """),
    "one_that_reads_per_statement_goes_on_elsewhere": COMMITTED.transcript("""
        >> BEGIN -> open
        << p transaction | per_statement open
        >> SELECT a FROM t -> open
        << r1 read | per_statement open; r1 begins
        -- breaks r1
        << per_statement open
        >> SELECT a FROM t -> open
        << r1 read | per_statement open; r1 begins
        >> COMMIT -> nothing
        << p transaction | none; r1 ends
    """),
    "one_that_may_write_goes_on_without_its_replica": SNAPSHOT.transcript("""
        >> BEGIN -> open
        << p transaction | snapshot open
        >> SELECT a FROM t -> open
        << r1 read | snapshot_on_replica open; r1 takes a snapshot
        -- breaks r1
        << snapshot_on_replica open
        >> SELECT a FROM t -> open
        << p replica_lost | snapshot_moved open; p takes a snapshot
        >> SELECT a FROM t -> open
        << p transaction | snapshot_moved open
        >> COMMIT -> nothing
        << p transaction | none
    """),
    "one_whose_snapshot_is_another_is_rolled_back_without_its_replica": DIFFERENT.transcript("""
        >> BEGIN -> open
        << p transaction | snapshot open
        >> SELECT a FROM t -> open
        << r1 read | snapshot_on_replica open; r1 takes a snapshot
        -- breaks r1
        << snapshot_on_replica open
        >> SELECT a FROM t
        << p conflict | none retry; p takes a snapshot; p rolls back; split_conflict
        >> BEGIN -> open
        << p transaction | primary open retry
    """),
    # Resets, COM_CHANGE_USER's among them
    "a_reset_ends_a_read_only_transaction": WORLD.transcript("""
        >> START TRANSACTION READ ONLY -> open, read only
        << p transaction | read_only open
        >> SELECT a FROM t -> open, read only
        << r1 read | read_only_on_replica open; r1 begins
        -- reset
        << none
        >> SELECT a FROM t -> nothing
        << r1 read | none
    """),
    "a_reset_ends_a_per_statement_transaction": COMMITTED.transcript("""
        >> BEGIN -> open
        << p transaction | per_statement open
        >> SELECT a FROM t -> open
        << r1 read | per_statement open; r1 begins
        -- reset
        << none
        >> SELECT a FROM t -> nothing
        << r1 read | none
    """),
    "a_reset_ends_a_replicas_snapshot": SNAPSHOT.transcript("""
        >> BEGIN -> open
        << p transaction | snapshot open
        >> SELECT a FROM t -> open
        << r1 read | snapshot_on_replica open; r1 takes a snapshot
        -- reset
        << none
        >> SELECT a FROM t -> nothing
        << r1 read | none
    """),
    "a_reset_forgets_what_was_set": COMMITTED.transcript("""
        >> SET autocommit = 0 -> manual
        << p session | none manual
        >> SAVEPOINT s -> manual
        << p transaction | none manual savepoint
        >> SET TRANSACTION READ ONLY -> manual
        << p transaction | none manual savepoint set next read only
        >> CALL p() -> error
        << p write | primary open uncertain manual savepoint set
        -- reset
        << none
        >> BEGIN -> open
        << p transaction | primary open
    """),
    # Flags
    # What a program sets, they tell alone.
    "status_flags_tell_of_autocommit": COMMITTED.transcript("""
        >> CALL p() -> manual
        << p write | none manual savepoint
        >> SELECT a FROM t -> open, manual
        << p transaction | primary open manual
        >> COMMIT -> manual
        << p transaction | none manual
        >> SELECT a FROM t -> open, read only, manual
        << r1 read | per_statement open implied manual; r1 manual
        >> CALL p() -> nothing
        << p write | none; p begins; r1 autocommits
        >> SELECT a FROM t -> nothing
        << p unknown_required | none
    """),
    "a_read_on_the_primary_opens_one_that_reads_per_statement": COMMITTED.transcript("""
        >> SET SESSION TRANSACTION READ ONLY -> nothing + transaction_read_only=ON
        << p transaction | none next read only
        >> SET autocommit = 0 -> manual
        << p session | none manual next read only
        >> CALL p() -> error
        << p write | primary open uncertain manual savepoint next read only
        >> ROLLBACK -> manual
        << p transaction | none manual next read only
        >> SELECT a FROM t -> open, read only, manual
        << p unknown_required | read_only_per_statement open manual next read only
        >> SELECT a FROM t -> open, read only, manual
        << p unknown_required | read_only_per_statement open manual next read only
        >> COMMIT -> manual
        << p transaction | none manual next read only
        >> SELECT a FROM t WHERE f() -> open, read only, manual
        << p write | read_only_on_primary open manual next read only
    """),
    "a_read_on_the_primary_takes_the_snapshot": WORLD.transcript("""
        >> SET SESSION TRANSACTION READ ONLY -> nothing + transaction_read_only=ON
        << p transaction | none next read only
        >> SET autocommit = 0 -> manual
        << p session | none manual next read only
        >> CALL p() -> error
        << p write | primary open uncertain manual savepoint next read only
        >> ROLLBACK -> manual
        << p transaction | none manual next read only
        >> SELECT a FROM t -> open, read only, manual
        << p unknown_required | read_only_on_primary open manual next read only
    """),
    "a_reset_ends_what_a_conflict_has_left": DIFFERENT.transcript("""
        >> BEGIN -> open
        << p transaction | snapshot open
        >> SELECT a FROM t -> open
        << r1 read | snapshot_on_replica open; r1 takes a snapshot
        >> SELECT @a := a FROM t
        << p conflict | none retry; p takes a snapshot; p rolls back; r1 ends; split_conflict
        -- reset
        << none
        >> BEGIN -> open
        << p transaction | snapshot open
    """),
    # Questions about the statement before
    # The replica that ran that statement need not have what the transaction is to see.
    "a_question_about_the_statement_before_takes_no_snapshot": SNAPSHOT.transcript("""
        >> SELECT a FROM t -> nothing
        << r1 read | none
        >> BEGIN -> open
        << p transaction | snapshot open
        >> SELECT FOUND_ROWS() -> open
        << p diagnostic | snapshot open
        >> SELECT a FROM t -> open
        << r1 read | snapshot_on_replica open; r1 takes a snapshot
        >> SELECT FOUND_ROWS() -> open
        << r1 diagnostic | snapshot_on_replica open
        >> COMMIT -> nothing
        << p transaction | none; r1 ends
        >> START TRANSACTION READ ONLY -> open, read only
        << p transaction | read_only open
        >> SELECT FOUND_ROWS() -> open, read only
        << p diagnostic | read_only open
    """),
}


@pytest.mark.parametrize("play", TRANSCRIPTS.values(), ids=TRANSCRIPTS)
def test_transcript(play: Callable[[], Play]) -> None:
    play()


# What others ask

BEGUN = ">> BEGIN -> open"
READ_ONLY = ">> START TRANSACTION READ ONLY -> open, read only"
READ = ">> SELECT a FROM t -> open"
WRITE = ">> UPDATE t SET a = 1 -> open"
SITUATIONS: dict[str, tuple[World, list[str], str]] = {
    "none": (WORLD, [], "idle nowhere question"),
    "primary": (WORLD, [BEGUN], ""),
    "read_only": (WORLD, [READ_ONLY], "read-only"),
    "read_only_on_replica": (
        *(WORLD, [READ_ONLY, READ + ", read only"]),
        "read-only on-replica elsewhere",
    ),
    "read_only_on_primary": (SERIALIZABLE, [READ_ONLY], "read-only"),
    "read_only_per_statement": (COMMITTED, [READ_ONLY], "read-only elsewhere question"),
    "per_statement": (COMMITTED, [BEGUN], "elsewhere question"),
    "per_statement_moved": (COMMITTED, [BEGUN, WRITE], "elsewhere"),
    "snapshot": (SNAPSHOT, [BEGUN], "can-move question"),
    "snapshot_on_replica": (SNAPSHOT, [BEGUN, READ], "on-replica elsewhere can-move"),
    "snapshot_on_primary": (SNAPSHOT, [BEGUN, WRITE], "can-move"),
    "snapshot_moved": (SNAPSHOT, [BEGUN, READ, WRITE], "can-move"),
}


_ASKED = ("read_only_per_statement", "snapshot")
"""Stages at which a question touches no snapshot, be the transaction still open or not."""


def stage_text(session: Session) -> str:
    """What the session's transaction answers to those who ask."""
    transaction = session.transaction
    answers = {
        "idle": transaction.is_idle,
        "nowhere": transaction.is_nowhere,
        "read-only": transaction.is_read_only,
        "on-replica": transaction.reads_on_replica,
        "elsewhere": transaction.reads_elsewhere,
        "can-move": transaction.can_move,
        "question": transaction.allows_question(session),
    }
    return " ".join(word for word, answer in answers.items() if answer)


@pytest.mark.parametrize("stage", SITUATIONS)
def test_each_stage_answers_those_who_ask(stage: str) -> None:
    world, lines, answers = SITUATIONS[stage]
    play = world.play("")
    list(play.lines(lines))
    assert play.session.transaction.stage == stage
    assert stage_text(play.session) == answers
    # An error leaves in doubt what is open.
    list(play.lines([">> COM_STATISTICS -> error"]))
    assert stage_text(play.session) == answers
    play.session.transaction.on_error(None, may_write=False, may_open=True)
    doubted = [word for word in answers.split() if word not in ("idle", "nowhere", "read-only")]
    kept = [word for word in doubted if stage in _ASKED or word != "question"]
    assert stage_text(play.session).split() == kept


def test_every_stage_is_asked() -> None:
    assert sorted(SITUATIONS) == STAGES


@pytest.mark.parametrize(
    ("world", "lines", "answers"),
    [
        (WORLD, [">> SET autocommit = 0 -> manual"], "nowhere"),
        (COMMITTED, [">> SET autocommit = 0 -> manual"], "nowhere question"),
        (SNAPSHOT, [">> SET autocommit = 0 -> manual"], "nowhere question"),
        (COMMITTED, [">> SET autocommit = 0 -> manual", ">> SAVEPOINT s -> manual"], ""),
        (WORLD, [">> SET TRANSACTION READ ONLY -> nothing"], "nowhere question"),
        (COMMITTED, [">> CALL p() -> error", "-- pinged nothing"], "question"),
    ],
)
def test_what_is_set_for_the_next_one_counts(world: World, lines: list[str], answers: str) -> None:
    play = world.play("")
    list(play.lines(lines))
    assert stage_text(play.session) == answers


def test_the_primarys_last_status_is_known() -> None:
    session = World().play("").session
    transaction = session.transaction
    run(session, "BEGIN", AUTOCOMMIT | IN_TRANS)
    assert transaction.status == AUTOCOMMIT | IN_TRANS
    transaction.on_ping(AUTOCOMMIT)
    assert transaction.status == AUTOCOMMIT
    session.on_rollback(0)
    assert transaction.status == 0


def test_servers_say_what_their_snapshots_show() -> None:
    play = SNAPSHOT.play("")
    transaction = play.session.transaction
    assert transaction.moment(None, of_primary=True) is None
    list(play.lines([BEGUN, READ]))
    snapshot = transaction.snapshot
    assert isinstance(snapshot, ReplicaSnapshot)
    assert transaction.moment(snapshot, of_primary=False) is snapshot.replica
    assert transaction.moment(None, of_primary=False) is None  # it was left
    assert transaction.moment(None, of_primary=True) is None  # it was not asked
    list(play.lines([WRITE]))
    assert transaction.moment(None, of_primary=True) is snapshot.primary
    assert transaction.moment(snapshot, of_primary=False) is None


# The table

STAGES = sorted(get_args(Stage))
EVENTS = sorted(get_args(Event))


def test_the_table_has_all_stages_and_events() -> None:
    assert sorted({stage for stage, _ in TABLE}) == STAGES
    assert sorted({event for _, event in TABLE}) == EVENTS
    assert sorted(set(TABLE.values())) == STAGES


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("stage", STAGES)
def test_an_event_that_nobody_can_expect_is_a_defect(stage: Stage, event: Event) -> None:
    if (stage, event) in TABLE:
        assert after(stage, event) == TABLE[stage, event]
        return
    with pytest.raises(UnexpectedEventError, match=f"^{event} at stage {stage}:"):
        after(stage, event)


def test_what_has_no_snapshot_cannot_take_one() -> None:
    session = World().play("").session
    with pytest.raises(UnexpectedEventError, match="read_on_replica at stage none"):
        take_snapshot(session, Server("r1", Role.REPLICA))
    with pytest.raises(UnexpectedEventError, match="moved at stage none"):
        session.transaction.move(Server("p", Role.PRIMARY))


# Whatever comes

STATEMENTS = (
    *("BEGIN", "START TRANSACTION READ ONLY", "START TRANSACTION WITH CONSISTENT SNAPSHOT"),
    *("COMMIT", "ROLLBACK AND CHAIN", "SAVEPOINT s", "SET TRANSACTION READ ONLY"),
    *("SET SESSION TRANSACTION READ ONLY", "SET autocommit = 0", "SET autocommit = 1"),
    *("SELECT a FROM t", "SELECT a FROM t", "SELECT a FROM t", "SELECT 1", "SELECT FOUND_ROWS()"),
    *("SELECT @a := a FROM t", "SELECT a FROM t FOR UPDATE", "INSERT INTO t VALUES (1)"),
    *("CREATE TABLE u (a INT)", "CALL p()", "SELECT 1; SELECT 2", "XA START 'x'", "SHOW TABLES"),
    *("COM_STMT_PREPARE COMMIT", "COM_STMT_EXECUTE COMMIT", "COM_PING"),
)
ANSWERS = (
    *("nothing", "open", "open", "open, read only", "manual", "open, manual"),
    *("open, read only, manual", "error"),
)
HAPPENINGS = (
    *("-- reset", "-- restored nothing", "-- restored open", "-- pinged nothing", "-- pinged open"),
    *("-- isolation READ-COMMITTED", "-- isolation REPEATABLE-READ", "-- suspect"),
    *("-- begins", "-- begins read only"),
)


@pytest.mark.parametrize("reads", TransactionReads)
def test_whatever_servers_answer_is_expected(reads: TransactionReads) -> None:
    """Also what no server would answer; and the stage agrees with what else is known."""
    chance, passed = Random(reads.value), set()
    for number in range(150):
        play = World(reads=reads, isolation=chance.choice(["", "READ-COMMITTED"])).play("")
        transaction = play.session.transaction
        for _ in range(20):
            if play.in_flight is not None:
                replica = play.in_flight[0].server.name
                left = replica != "p" and chance.random() < 0.5
                line = f"-- leaves {replica}" if left else f"-- answers {chance.choice(ANSWERS)}"
            elif chance.random() < 0.15:
                line = chance.choice(HAPPENINGS)
            else:
                line = f">> {chance.choice(STATEMENTS)}"
                if chance.random() < 0.9:
                    line += f" -> {chance.choice(ANSWERS)}"
            list(play.lines([line]))
            play.session.on_probe(gtids("1-5"))
            stage, snapshot = transaction.stage, transaction.snapshot
            passed.add(stage)
            assert (transaction.reads is None) is (stage in ("none", "primary")), number
            if transaction.reads is None:
                assert transaction.is_open is (stage == "primary"), number
            if snapshot is not None:
                taken = snapshot.server is not None
                per_statement = stage == "read_only_per_statement"
                assert taken is not (stage in ("read_only", "snapshot") or per_statement), number
                on_replica = stage in ("read_only_on_replica", "snapshot_on_replica")
                assert transaction.reads_on_replica is on_replica, number
                assert snapshot.may_write is stage.startswith("snapshot"), number
    rare = [] if reads is TransactionReads.SNAPSHOT else [s for s in STAGES if s[:2] == "sn"]
    assert passed >= set(STAGES) - set(rare)  # the others only if one begins without a primary
