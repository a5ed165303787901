"""One server as its sessions see it: its data, its GTIDs, its variables."""

import asyncio
import ssl
import time
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from mysql_mocker.replication.applier import Applier
from mysql_mocker.replication.binlog import Binlog, Transaction, Write
from mysql_mocker.replication.gtid_state import GtidState
from mysql_mocker.replication.log_files import LogFiles
from mysql_mocker.sql.result import Result
from mysql_mocker.sql.value import Row, Value
from mysql_mocker.state.clients import Clients
from mysql_mocker.state.commit_clock import CommitClock
from mysql_mocker.state.engine import Engine
from mysql_mocker.state.faults import Faults
from mysql_mocker.state.gtid_keeper import GtidKeeper, GtidLogging
from mysql_mocker.state.locks import NamedLocks
from mysql_mocker.state.semi_sync import SemiSync
from mysql_mocker.state.variables import (
    DEFINITIONS,
    UNDEFINED_VERSION,
    VERSION,
    VERSION_ID,
    Reach,
    Setting,
)
from protocol.binlog.commit_timestamps import UNDEFINED
from protocol.gtid import GtidSet

Procedures = Callable[[str, Sequence[Value]], Awaitable[Result]]
"""Runs the procedure of this name with these arguments."""

_STATEMENTS_KEPT: Final = 10_000


class Instance:
    """A server without listening and replication, which `Server` adds.

    Args:
        accounts: password by user.
        server_id: for @@server_id.
        server_uuid: for @@server_uuid and its GTIDs; a random one if it is not given.
        ssl_context: lets clients use TLS.
        logging: whether it has a binary log, and what is in it.

    Attributes:
        gtids: what it has executed.
        binlog: what its replicas read.
        logs: the binary log as files.
        error_log: the warnings that it has logged.
        clock: gives the timestamps of its commits.
        administrators: users who may set session variables that need a privilege.
        follows_worklogs: it does what the worklogs say where MySQL 9.7 does something else.
        keeper: writes its GTIDs so that they survive a crash.
        applier: set if it is a replica.
        clients: those that are connected.
        faults: those that are armed.
        semi_sync: how its commits wait for its replicas.
        login_delay: seconds before a client is greeted.
        procedures: runs ``CALL mock.name(…)``, if it is set.
        questions: how many statements clients sent.
        statements: the newest statements that clients sent, as (connection id, text).
        password_cache: users whose next login is fast.
    """

    def __init__(
        self,
        accounts: Mapping[str, str],
        server_id: int = 1,
        server_uuid: str | None = None,
        ssl_context: ssl.SSLContext | None = None,
        logging: GtidLogging | None = None,
    ) -> None:
        self.accounts = dict(accounts)
        self.ssl_context = ssl_context
        self.engine = Engine()
        self.gtids = GtidState(server_uuid or str(uuid.uuid4()))
        self.binlog = Binlog(self.gtids.server_uuid)
        self.error_log: list[str] = []
        warn = self.error_log.append
        self.logs = LogFiles(self.binlog, server_id, VERSION, VERSION_ID, warn)
        self.clock = CommitClock(warn)
        self.administrators = {"root"}
        self.follows_worklogs = False
        self.keeper = GtidKeeper(
            self.engine,
            self.binlog,
            logging or GtidLogging(),
            lambda: int(self._variables["gtid_executed_compression_period"]),
            lambda: self.follows_worklogs,
        )
        self.applier: Applier | None = None
        self.clients = Clients()
        self.faults = Faults()
        self.semi_sync = SemiSync()
        self.login_delay = 0.0
        self.procedures: Procedures | None = None
        self.locks = NamedLocks()
        self.password_cache: set[str] = set()
        self.statements: deque[tuple[int, str]] = deque(maxlen=_STATEMENTS_KEPT)
        self._variables = {name: known.default for name, known in DEFINITIONS.items()}
        self._variables |= {"server_id": server_id, "server_uuid": self.gtids.server_uuid}
        self._variables["log_bin"] = self.keeper.logging.binary_log
        self._variables["log_replica_updates"] = self.keeper.logging.replica_updates
        self.started = 0.0
        self.questions = 0

    # Data.

    def committed(
        self,
        writes: Sequence[Write],
        gtid: GtidSet,
        original_commit: int = UNDEFINED,
        original_version: int = UNDEFINED_VERSION,
        *,
        prepared: bool = False,
        logged: bool = False,
    ) -> None:
        """A client's transaction became visible: from here on its GTID counts as executed.

        Args:
            writes: what it did.
            gtid: its GTID.
            original_commit: ``original_commit_timestamp`` of its session.
            original_version: ``original_server_version`` of its session.
            prepared: the keeper's `prepare` was called before.
            logged: it is in the binary log already.
        """
        if not logged:
            self.log(writes, gtid, original_commit, original_version)
        self.keeper.committed(gtid, own=True, prepared=prepared)
        self.gtids.add(gtid)

    def log(
        self, writes: Sequence[Write], gtid: GtidSet, original_commit: int, original_version: int
    ) -> None:
        """Writes a transaction of a client to the binary log, and so to the replicas."""
        if self.keeper.logging.binary_log:
            now = asyncio.get_running_loop().time()
            timestamps = self.clock.stamp(original_commit, by_applier=False)
            version = VERSION_ID if original_version == UNDEFINED_VERSION else original_version
            self.binlog.append(Transaction(gtid, tuple(writes), now, timestamps, version))

    def create_schema(self, name: str) -> None:
        """Makes a schema without a GTID, as if it had always been there."""
        self.engine.create_schema(name)

    # Variables.

    @property
    def read_only(self) -> bool:
        """super_read_only."""
        return bool(self._variables["super_read_only"])

    @read_only.setter
    def read_only(self, value: bool) -> None:
        self.set_variable("super_read_only", value)

    def variable(self, name: str) -> Setting:
        """A variable's global value; `name` is canonical."""
        if name == "gtid_executed":
            return str(self.gtids.executed)
        if name == "gtid_purged":
            logged = self.keeper.logging.binary_log
            return str(self.gtids.purged if logged else self.gtids.executed)
        if name == "gtid_owned":
            return self.gtids.owned_text or self._variables[name]
        return self._variables[name]

    def set_variable(self, name: str, value: Setting) -> None:
        """SET GLOBAL; super_read_only implies read_only."""
        self._variables[name] = value
        if name == "super_read_only" and value:
            self._variables["read_only"] = True
        if name == "read_only" and not value:
            self._variables["super_read_only"] = False

    def session_variables(self) -> dict[str, Setting]:
        """What a new session starts with."""
        return {
            name: value
            for name, value in self._variables.items()
            if DEFINITIONS[name].reach in (Reach.BOTH, Reach.SESSION)
        }

    # What it says about itself.

    def note(self, connection_id: int, text: str) -> None:
        """A client sent a statement."""
        self.questions += 1
        self.statements.append((connection_id, text))

    def threads(self) -> list[Row]:
        """performance_schema.threads: those that GTIDs need; no client sees or kills them."""
        return [
            (33, "thread/innodb/clone_gtid_thread", "BACKGROUND", None, None,
             "waiting for handler commit"),
            (37, "thread/sql/compress_gtid_table", "FOREGROUND", 6, "Daemon",
             self.keeper.thread_state),
        ]  # fmt: skip

    def status(self) -> dict[str, str]:
        """Status variables."""
        return {
            "Connections": str(self.clients.counted),
            "Questions": str(self.questions),
            "Queries": str(self.questions),
            "Threads_connected": str(len(self.clients)),
            "Threads_running": "1",
            "Uptime": str(self.uptime),
            "Slow_queries": "0",
        }

    @property
    def uptime(self) -> int:
        """Whole seconds since the start."""
        return int(time.monotonic() - self.started)
