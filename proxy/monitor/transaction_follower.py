"""Reads the primary's binary log, for which tables each transaction changed.

There is one stream for a proxy. It begins where the replicas are, so that no transaction is missing
that one of them lacks, and whatever interrupts it makes `TransactionTables` forget: until it has
begun again, reads wait for all that they did before.

To read the log takes a worker as much time as to route the writes, and is of no use while replicas
keep up. So with ``auto`` it is read while replicas are late, and for a while after that; and once
in the beginning, to see whether it may be read at all.
"""

from __future__ import annotations

import asyncio
import logging
from math import inf
from typing import TYPE_CHECKING, Final

from protocol.gtid import EMPTY
from proxy import tasks
from proxy.monitor.binlog_stream import FAILURES, Retries, connect, end_of, receive, request_log
from proxy.server.query import ask, rows
from routing.servers.lateness import LATE_S
from routing.servers.log_progress import LogProgress
from routing.servers.logged_changes import VARIABLES, why_not_logged
from routing.servers.topology import ProbeResult
from routing.servers.transaction_log import TransactionLog
from routing.servers.transaction_ring import SharedTransactionTables

if TYPE_CHECKING:
    from protocol.gtid import GtidSet
    from proxy.observe.label_values import TablesEnd
    from proxy.server.connection import ServerConnection
    from proxy.shared.shared import Shared
    from routing.servers.topology import Server

_log = logging.getLogger(__name__)

_WINDOW_S: Final = 10.0
"""The rate of the log is looked at over that time."""
_FARTHEST: Final = 50_000
"""How many transactions that the primary has already are read at most."""
_PIECE: Final = 16 << 10
"""Bytes that are read in one go: some 40 small transactions, 2 ms in plain Python."""
_PAUSE_S: Final = 0.005
"""So long nothing is read when all has been read that had come: so the log of a busy primary wakes
the worker 200 times a second, and not with each transaction. A read that would wait for less time
than that waits."""
_OVERDUE_S: Final = 30.0
"""What the primary has comes in its log in that time, or in none: then the log is read anew."""
_ANOTHER: Final = "the primary is another one, or has begun anew"
_BEGINS: Final = "it is about to begin"
_NOT_NEEDED: Final = "replicas are not late"
_LINGER_S: Final = 60.0
"""So long the log is read on after a replica was late: to begin costs the primary a look through
its newest file, and reads that they wait until then."""
_ASKED: Final = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ({})".format(
    ",".join(f"'{name}'" for name in VARIABLES)
).encode()


class _UnfitError(Exception):
    """The log does not name every table that is changed."""


class _RateError(Exception):
    """The log grows faster than it is to be read."""


class TransactionFollower:
    """A connection to the primary, with `table-dependencies`; other workers take what it says."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._tables = shared.topology.transaction_tables
        self._task: asyncio.Task[None] | None = None
        self._term = -1  # the one whose log is read, or was tried
        self._retries = Retries()
        self._begun_at: float | None = None
        self._purged = False  # the server had not all of the log that was asked for
        self._logged_end = ""
        self._awaited = EMPTY  # the log is to have been read through that
        self._awaited_at = 0.0
        self._was_read = False  # in this term
        self._progress = LogProgress(LATE_S)

    def follow(self) -> None:
        """The monitor has looked at a server: read the log of what is the primary now.

        That is, if it is needed, or was not read yet.
        """
        shared, tables = self._shared, self._tables
        self._settle_term()
        if tables.begun and self._term >= 0:
            self._check_overdue()
            self._sync()
            self._note_late_replicas()
            if not self._is_needed():
                self._rest()
        applied = self._applied_everywhere()
        if tables.begun and applied is not None:
            tables.drop(applied)
        shared.metrics.tables_read(tables.begun, tables.count())
        if self._term < 0 or self._task is not None or shared.now() < self._retries.at:
            return
        primary = shared.topology.primary
        if not primary.uuid or applied is None:
            return  # nothing is known yet
        if self._is_needed() or not self._was_read:
            self._task = tasks.start(self._run(primary), f"tables of {primary.name}")

    def _settle_term(self) -> None:
        """See whether a log is to be read here, and whose."""
        topology = self._shared.topology
        if topology.tables_reader is not None:
            topology.tables_reader.refresh()
            topology.tables_reader.tell_late(self._found_late_at())
            self._term = -1
        elif self._shared.config.table_dependencies == "off":
            self.leave("off")
        elif topology.group:
            self.leave("the members of a group need not commit in the order of one's log")
        elif self._term != topology.term:
            self.leave(_ANOTHER if self._term >= 0 else _BEGINS)
            self._term = topology.term
            self._retries.reset()
            self._purged = self._was_read = False

    def _is_needed(self) -> bool:
        """Whether reads may gain by the log now."""
        shared = self._shared
        return (
            shared.config.table_dependencies == "on"
            or shared.now() - self._found_late_at() <= _LINGER_S
        )

    def _found_late_at(self) -> float:
        """When a replica was last found to be late, monotonic s."""
        found = [replica.lateness.at for replica in self._shared.topology.replicas]
        if isinstance(self._tables, SharedTransactionTables):
            found.append(self._tables.late_at)
        return max(found, default=-inf)

    def _note_late_replicas(self) -> None:
        """See which replicas lacked, at the last look, what the log had shown before.

        While the log is read few reads wait, so they do not tell.
        """
        now = self._shared.now()
        for replica in self._shared.topology.replicas:
            if (
                now < replica.shunned_until
                or not replica.gtids_trustworthy
                or replica.probe_result is not ProbeResult.ANSWERED
            ):
                continue
            behind = self._progress.behind(replica.applied, replica.seen_at)
            if behind:
                replica.lateness.on_late(now, behind)

    def _rest(self) -> None:
        """Read no more until a replica is late."""
        if self._task is not None:
            self._task.cancel()
        self._begun_at = None
        self._tables.forget(_NOT_NEEDED)

    def _sync(self) -> None:
        """Let other workers begin here."""
        tables, primary = self._tables, self._shared.topology.primary
        if isinstance(tables, SharedTransactionTables) and tables.term == self._term:
            tables.sync(primary.uuid, primary.started)

    def _check_overdue(self) -> None:
        """See whether all comes in the log that the primary has.

        GTIDs that are added to gtid_purged do not, nor would anything else if the stream stuck.
        """
        now = self._shared.now()
        if now - self._awaited_at < _OVERDUE_S:
            return
        if not self._tables.read_through.covers(self._awaited):
            self.leave("transactions of the primary do not come in its log")
        self._awaited = self._shared.topology.primary.applied
        self._awaited_at = now

    def leave(self, cause: str) -> None:
        """Read no more, for this reason."""
        if self._task is not None:
            self._task.cancel()
        self._term = -1
        self._begun_at = None
        if self._tables.cause != cause:
            self._tables.forget(cause)

    async def stop(self) -> None:
        """Read no more."""
        if self._task is not None:
            await tasks.stop(self._task)

    def _applied_everywhere(self) -> GtidSet | None:
        """What all replicas have that may be read now; None if there is none.

        Others must have all of that, too, before anything is left out for them.
        """
        now = self._shared.now()
        common: GtidSet | None = None
        for replica in self._shared.topology.replicas:
            if replica.uuid and not replica.is_unreachable(now):
                common = replica.applied if common is None else common & replica.applied
        return common

    async def _run(self, primary: Server) -> None:
        try:
            connection = await connect(primary, self._shared)
            try:
                async with asyncio.timeout(self._shared.config.connect_timeout):
                    lower_case = await self._ask(primary, connection)
                await self._read(primary, connection, lower_case)
            finally:
                connection.abort()
        except _UnfitError as error:
            self._ended("unfit", str(error))
        except _RateError as error:
            self._ended("rate", str(error))
        except FAILURES as error:
            cause, text = end_of(error, self._shared.config.monitor_user)
            self._purged = self._purged or cause == "refused"
            self._ended(cause, text)
        finally:
            self._task = None  # a cancelled task keeps its frames, which know the follower

    async def _ask(self, primary: Server, connection: ServerConnection) -> int:
        """The server's lower_case_table_names, if its log is fit to be read.

        Raises:
            _UnfitError: it is not.
            ServerRefusedError, ChannelClosedError, ProtocolError: as `query`.
        """
        ask(connection, _ASKED)
        variables = {
            (row["Variable_name"] or b"").decode(): (row["Value"] or b"").decode("utf-8", "replace")
            for row in await rows(connection)
        }
        cause = why_not_logged(variables, primary.filters.binary_log)
        if cause:
            raise _UnfitError(cause)
        return int(variables.get("lower_case_table_names", "1"))

    def _start(self, executed: GtidSet) -> GtidSet:
        """The transactions that need not be read, of those that the primary has."""
        applied = self._applied_everywhere()
        if applied is None or self._purged:
            return executed
        start = executed & applied
        return start if (executed - start).count() <= _FARTHEST else executed

    async def _read(self, primary: Server, connection: ServerConnection, lower_case: int) -> None:
        shared, tables = self._shared, self._tables
        start = self._start(connection.identity.executed)
        await request_log(connection, start)
        connection.channel.read_ahead()
        log = TransactionLog(tables, self._term, start, lower_case)
        window = _Window(shared.now())
        while True:
            received = await receive(connection, log.events)
            window.add(len(received), shared.config.table_dependencies_rate, shared.now())
            shared.metrics.tables_received(len(received))
            for at in range(0, len(received), _PIECE):
                if at:
                    await asyncio.sleep(0)  # clients are served in between
                if shared.topology.term != self._term or connection.epoch != primary.epoch:
                    tables.forget(_ANOTHER)  # the next look begins anew
                    self._begun_at = None
                    return
                log.receive_data(received[at : at + _PIECE])
                if self._begun_at is None and tables.begun:
                    self._began(primary)
                    self._sync()
            self._progress.add(shared.now(), tables.read_through)
            if tables.begun and len(received) < _PIECE:
                connection.channel.pause()
                await asyncio.sleep(_PAUSE_S)

    def _began(self, primary: Server) -> None:
        self._was_read = True
        self._progress.clear()
        self._begun_at = self._awaited_at = self._shared.now()
        self._awaited = primary.applied
        self._logged_end = ""
        _log.info("which tables transactions change is read in the binary log of %s", primary.name)

    def _ended(self, cause: TablesEnd, text: str) -> None:
        shared, end = self._shared, f"{cause}: {text}"
        self._tables.forget(end)
        self._retries.failed(self._begun_at, shared.now())
        self._begun_at = None
        shared.metrics.tables_read(reads=False, kept=0)
        shared.metrics.tables_ended(cause)
        if self._logged_end != end:
            self._logged_end = end
            _log.warning(
                "which tables transactions change is not known, so reads wait for all"
                " (table-dependencies): %s: %s",
                shared.topology.primary.name,
                text,
            )


class _Window:
    """Counts bytes, and says when they are too many."""

    def __init__(self, now: float) -> None:
        self._begun_at = now
        self._bytes = 0

    def add(self, count: int, rate: int, now: float) -> None:
        """Count bytes that came now; `rate` is per second.

        Raises:
            _RateError: they are more than the rate allows.
        """
        if now - self._begun_at > _WINDOW_S:
            self._begun_at = now
            self._bytes = 0
        self._bytes += count
        if self._bytes > rate * _WINDOW_S:
            raise _RateError(f"more than {rate} bytes a second come (table-dependencies-rate)")
