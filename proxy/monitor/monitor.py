"""Watches the servers with an account of its own: who is up, who is the primary, who has what."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from protocol.errors import ProtocolError, ServerErrorCode
from protocol.gtid import GtidSet
from proxy import tasks
from proxy.channel import ChannelClosedError
from proxy.error_text import error_text
from proxy.monitor.account import login
from proxy.monitor.binlog_lag import BinlogLag
from proxy.monitor.discovery import Discovery
from proxy.monitor.filters import RIGHTS, left_out_by_applier
from proxy.monitor.group_watch import GroupWatch
from proxy.monitor.lag import LagWatch
from proxy.monitor.max_lag import LagLimit
from proxy.monitor.membership import Membership
from proxy.monitor.primary_election import PrimaryElection
from proxy.monitor.server_differences import ServerDifferences
from proxy.monitor.sources import sources
from proxy.monitor.transaction_follower import TransactionFollower
from proxy.server.binary_log_question import binary_log
from proxy.server.connect.opening import open_connection
from proxy.server.errors import NoDescriptorError, ServerRefusedError, ServerUnreachableError
from proxy.server.query import identify, query
from routing.servers.gaps import gaps
from routing.servers.observations import Observation
from routing.servers.topology import ProbeResult

if TYPE_CHECKING:
    from proxy.config import Config
    from proxy.server.connection import ServerConnection
    from proxy.server.identity import Identity
    from proxy.shared.shared import Shared
    from routing.servers.topology import Held, Server

_log = logging.getLogger(__name__)

_ACCOUNT_ERRORS: Final = frozenset(
    error.code
    for error in (
        ServerErrorCode.ER_DBACCESS_DENIED_ERROR,
        ServerErrorCode.ER_ACCESS_DENIED_ERROR,
        ServerErrorCode.ER_TABLEACCESS_DENIED_ERROR,
        ServerErrorCode.ER_USER_LIMIT_REACHED,
        ServerErrorCode.ER_SPECIFIC_ACCESS_DENIED_ERROR,
        ServerErrorCode.ER_ACCESS_DENIED_NO_PASSWORD_ERROR,
        ServerErrorCode.ER_MUST_CHANGE_PASSWORD,
        ServerErrorCode.ER_MUST_CHANGE_PASSWORD_LOGIN,
        ServerErrorCode.ER_ACCOUNT_HAS_BEEN_LOCKED,
    )
)
"""Errors that concern only the monitor's account; clients may still be served there."""
_SLACK_S: Final = 1.0
_PURGED: Final = b"SELECT @@GLOBAL.gtid_executed,@@GLOBAL.gtid_purged"
_STATEMENT_ERRORS: Final = frozenset(
    error.code
    for error in (
        ServerErrorCode.ER_QUERY_INTERRUPTED,
        ServerErrorCode.ER_QUERY_TIMEOUT,
        ServerErrorCode.ER_CLIENT_INTERACTION_TIMEOUT,
        ServerErrorCode.ER_NEW_ABORTING_CONNECTION,  # the account may not run its init_connect
    )
)
"""Errors that say that the server has ended a statement of the monitor's, or its connection."""


class Monitor:
    """One task per server; nothing at all without a monitor-user.

    A replica's lag is the age of the oldest observation of the primary that the replica does not
    contain: it needs no privilege and no agreement of clocks, and is as fine as the interval.
    """

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._tasks: dict[Server, asyncio.Task[None]] = {}
        self._watches = False
        self._one_server: set[tuple[str, str]] = set()  # names of one server, which was logged
        self._connections: dict[Server, ServerConnection] = {}
        self._outdated: set[Server] = set()  # those whose connections are to be made anew
        self._filters_hidden: set[Server] = set()  # may not be asked for filters, which was logged
        self._sources_hidden: set[Server] = set()  # those whose replication may not be seen
        self._succession = PrimaryElection(shared)
        self._binlog = BinlogLag(shared)
        self._tables = TransactionFollower(shared)
        self._differences = ServerDifferences(shared)
        self._lag = LagWatch(shared, self._binlog)
        self._limit = LagLimit(shared)
        self.membership = Membership(shared, self)
        self._group = GroupWatch(shared, self._succession, self.membership)
        self._discovery = Discovery(shared, self._succession, self.membership)

    async def start(self) -> None:
        """Begin to watch; where the primary is followed, return after a look at each server.

        Raises:
            StateError: the state file cannot be used.
        """
        if self._shared.config.monitor_user is None:
            return
        topology = self._shared.topology
        await self._succession.begin()
        if self._succession.follows or self._group.asks:
            await asyncio.gather(*(self._look(server) for server in topology.servers))
            # Those that are named say who else there is, and who of these is the primary.
            self._group.take_members()
            self._discovery.judge()
            await asyncio.gather(*(self._look(server) for server in topology.standby))
            await self._succession.judge()
            if topology.standby:
                await self._look(topology.primary)
                self._discovery.judge()
                self.membership.admit()
        self._watches = True
        for server in topology.watched:
            self.watch(server)

    def on_config_changed(self, before: Config, *, renews: bool) -> None:
        """Go on by other options.

        Args:
            before: the options until now.
            renews: connections are to be made anew.
        """
        config = self._shared.config
        self.membership.configure()
        if config.monitor_user is None:
            self._end_watch()
            return
        if renews or (before.monitor_user, before.monitor_password) != (
            config.monitor_user,
            config.monitor_password,
        ):
            self._outdated.update(self._connections)
            self._filters_hidden.clear()
            self._sources_hidden.clear()
        if before.monitor_user is None:
            self._watches = True
            for server in self._shared.topology.watched:
                self.watch(server)
        elif before.lag_limit != config.lag_limit:
            self._limit.judge_all()

    def _end_watch(self) -> None:
        """Watch nothing, and go on as if nothing had ever been seen."""
        if not self._watches:
            return
        shared = self._shared
        self._watches = False
        for server in shared.topology.watched:
            self.unwatch(server)
            server.probe_result = ProbeResult.UNKNOWN
            server.lag = server.staleness = None
            server.set_lagging(False)
            shared.metrics.lag(server.name, None)
            shared.metrics.lagging(server.name, None)
            shared.metrics.server_watched(server.name, False)
        for server in shared.topology.standby:
            self.membership.use(server)
        self._succession.on_unwatched()
        self._tables.leave("off: there is no monitor-user")

    async def stop(self) -> None:
        """Watch no more."""
        await tasks.stop(*self._tasks.values())
        await self._binlog.stop()
        await self._tables.stop()
        for server in list(self._connections):
            self._drop(server)
        self._succession.end()

    def watch(self, server: Server) -> None:
        """Begin to look at a server; `start` itself looks at those that come meanwhile."""
        if self._watches and server not in self._tasks:
            self._tasks[server] = tasks.start(self._watch(server), f"monitor {server.name}")

    def unwatch(self, server: Server) -> None:
        """Look at it no more, and forget what was found; the caller may be a look at it."""
        task = self._tasks.pop(server, None)
        if task is not None and task is not asyncio.current_task():
            task.cancel()

    def _forget(self, server: Server) -> None:
        self._drop(server)
        self._outdated.discard(server)
        self._lag.forget(server)
        self._limit.forget(server)
        self._filters_hidden.discard(server)
        self._sources_hidden.discard(server)
        self._group.gone(server)
        self._discovery.forget(server)
        self._differences.forget(server)

    def _drop(self, server: Server) -> None:
        connection = self._connections.pop(server, None)
        if connection is not None:
            connection.abort()

    async def _watch(self, server: Server) -> None:
        try:
            if server.probe_result is ProbeResult.UNKNOWN:
                await self._look_and_judge(server)
            while server in self._tasks:
                await asyncio.sleep(self._shared.config.monitor_interval)
                await self._look_and_judge(server)
        finally:
            if server not in self._tasks:
                self._forget(server)

    async def _look_and_judge(self, server: Server) -> None:
        await self._look(server)
        self._group.take_members()
        await self._succession.judge()
        self._discovery.judge()
        self.membership.admit()
        self._tables.follow()
        self._shared.administration.drain.refresh()
        self._warn_of_second_names()

    def _warn_of_second_names(self) -> None:
        """Log servers that are there by two names."""
        named: dict[str, str] = {}
        for server in self._shared.topology.servers:
            if server.probe_result is not ProbeResult.ANSWERED:
                continue
            first = named.setdefault(server.uuid, server.name)
            if first != server.name and (first, server.name) not in self._one_server:
                self._one_server.add((first, server.name))
                _log.warning(
                    "%s and %s are one server, with server_uuid %s: name it once",
                    first,
                    server.name,
                    server.uuid,
                )

    async def _look(self, server: Server) -> None:
        """Look at a server, and note how that ended."""
        shared = self._shared
        began_at = shared.now()
        cause = ""
        usable = True
        try:
            async with asyncio.timeout(shared.config.connect_timeout):
                await self._ask_again(server)
            result = ProbeResult.ANSWERED
        except ServerRefusedError as error:
            cause = str(error)
            leaving = error.error.code == ServerErrorCode.ER_SERVER_SHUTDOWN.code
            result = ProbeResult.GONE if leaving else ProbeResult.REFUSED
            usable = error.error.code in _ACCOUNT_ERRORS | _STATEMENT_ERRORS
        except NoDescriptorError:
            return  # it says nothing about the server, and was logged
        except (ServerUnreachableError, TimeoutError, ChannelClosedError, ProtocolError) as error:
            cause = error_text(error)
            result = ProbeResult.GONE
            usable = False
        if result is not ProbeResult.ANSWERED:
            self._drop(server)
            server.lag = None
            shared.metrics.lag(server.name, None)
            server.gap = None
            shared.metrics.gap(server.name, None)
            self._lag.gone(server)
            self._limit.forget(server)
            self._group.gone(server)
        if usable:
            self._reached(server)
        else:
            now = shared.now()
            server.set_unreachable(now)
            if result is ProbeResult.GONE:  # until the next look has ended
                self._add_silence(server, now)
        before, server.probe_result, server.seen_at = server.probe_result, result, began_at
        shared.metrics.server_known(server.name, server.role)
        shared.metrics.server_up(server.name, usable and server not in shared.topology.standby)
        shared.metrics.server_watched(server.name, result is ProbeResult.ANSWERED)
        shared.metrics.server_writable(server.name, server.takes_writes)
        if result is before:
            return
        if result is ProbeResult.ANSWERED:
            _log.info("server %s is up (%s)", server.name, server.version)
        elif not usable:
            _log.warning("server %s is down: %s", server.name, cause)
        else:
            _log.error(
                "server %s is not watched, since it does not let the monitor look: %s; mend the"
                " account %s there, or what ends its statements",
                server.name,
                cause,
                self._shared.config.monitor_user,
            )

    def _reached(self, server: Server) -> None:
        if server is self._shared.topology.primary:
            self._shared.sessions.on_primary_back(server)
        else:
            server.set_reachable()

    def _add_silence(self, server: Server, now: float) -> None:
        shared = self._shared
        known, config = server.is_silent(now), shared.config
        server.add_silence(now + config.monitor_interval + config.connect_timeout + _SLACK_S)
        if server is shared.topology.primary and not known:
            shared.sessions.on_primary_silent()
            shared.sessions.on_primary_gone()

    async def _ask_again(self, server: Server) -> None:
        """Ask a server, over a new connection if the kept one turns out to have ended.

        A connection can be killed, or ended for being idle, and its statement interrupted, while
        the server serves everybody else: only a new connection tells that it does not.
        """
        if server in self._outdated:
            self._outdated.discard(server)
            self._drop(server)
        kept = self._connections.get(server)
        if kept is not None:
            try:
                await self._ask(server)
            except (ServerRefusedError, ServerUnreachableError) as error:
                cause = str(error)
            except (ChannelClosedError, ProtocolError) as error:
                cause = error_text(error)
            else:
                return
            self._drop(server)
            _log.info("the monitor's connection to %s has ended: %s", server.name, cause)
        await self._ask(server)

    async def _ask(self, server: Server) -> None:
        shared = self._shared
        config = shared.config
        asked_at = shared.now()
        is_primary = server is shared.topology.primary
        look = shared.topology.observations.begin_look() if is_primary else 0
        held = shared.topology.held_by_replicas()
        connection = self._connections.get(server)
        if connection is None:
            connection = await open_connection(
                server, login(config), config, shared.materials, "OFF"
            )
            self._connections[server] = connection
            identity = connection.identity
            await self._ask_binary_log(server, connection)
        else:
            number, divergences = 0, server.divergences
            if server.has_diverged:
                number = await self._ask_binary_log(server, connection)
            identity = await identify(connection)
            if number:
                server.take_binary_log(number, divergences)
        await self._ask_applier(server, connection)
        self._judge_filters()
        sees_group = not self._group.asks or await self._group.ask(server, connection, asked_at)
        follows = self._succession.promotes and not identity.read_only
        if follows or (
            shared.config.table_dependencies != "off" and server is not shared.topology.primary
        ):
            server.sources = await self._sources(server, connection)
        server.set_read_only(identity.read_only)
        if server is shared.topology.primary:
            await self._take_primary(connection, identity, held, asked_at, look)
        else:
            await self._take_replica(connection, identity.executed)
        sees_replicas = not self._discovery.asks or await self._discovery.ask(server, connection)
        await self._differences.ask(server, connection)
        await self._ask_lag(server, connection)
        if server is not shared.topology.primary:
            self._limit.judge(server)
        if server in self._sources_hidden or not (sees_group and sees_replicas):
            self._drop(server)  # a right that is granted counts for new connections
        shared.metrics.scopes(len(shared.scopes), shared.scopes.evicted)
        if shared.sharing is not None:
            shared.metrics.scopes_shared(shared.sharing.overflowed, shared.sharing.torn)

    async def _take_primary(
        self,
        connection: ServerConnection,
        identity: Identity,
        held: list[Held],
        asked_at: float,
        look: int,
    ) -> None:
        """Take what the primary has, and compare replicas with it.

        Args:
            connection: over which it was asked.
            identity: what it said.
            held: what replicas had before.
            asked_at: when it was asked, monotonic s.
            look: the number of this look at it; 0 if it was a replica when it began.
        """
        shared, server = self._shared, connection.server
        self._limit.forget(server)
        shared.metrics.lagging(server.name, None)
        if shared.primary_epoch.has_begun():
            shared.primary_epoch.judge(held, identity.executed | identity.owned)
        else:
            await shared.primary_epoch.begin(connection, login(shared.config))
        if not server.gtids:
            shared.sessions.stopped_naming(server)
        if shared.topology.lacks_quorum:
            return
        observations = shared.topology.observations
        first = not observations.any
        observation = Observation(
            asked_at,
            identity.executed,
            server.epoch,
            identity.asked_us,
            identity.answered_us,
            logged=identity.grew,
        )
        observations.take(observation)
        if connection.epoch == server.epoch:
            shown = identity.executed | shared.topology.committed(identity.owned)
            observations.end_look(look, shown, observation)
        if first:
            self._limit.judge_all()

    async def _take_replica(self, connection: ServerConnection, executed: GtidSet) -> None:
        """Take what a replica has."""
        shared, server = self._shared, connection.server
        observations = shared.topology.observations
        server.staleness = staleness = observations.staleness(executed)
        server.lag = None if staleness is None else observations.age_now(staleness, shared.now())
        shared.metrics.lag(server.name, server.lag)
        server.gap = gaps(executed, shared.topology.primary.applied).count()
        shared.metrics.gap(server.name, server.gap)
        if server.regained:
            await self._ask_purged(server, connection)

    async def _ask_purged(self, server: Server, connection: ServerConnection) -> None:
        row = await query(connection, _PURGED)
        if len(row) == 2 and row[0] is not None and row[1] is not None:
            server.judge_regained(GtidSet.parse(row[0], server.applied), GtidSet.parse(row[1]))

    async def _ask_lag(self, server: Server, connection: ServerConnection) -> None:
        try:
            # It has said who it is: locked tables are no reason not to use it.
            async with asyncio.timeout(self._shared.config.connect_timeout / 2):
                await self._lag.ask(server, connection)
        except TimeoutError:
            self._lag.missing_trackers(server, "its replication tables give no answer in time")
            self._drop(server)  # the answer may still come

    async def _ask_binary_log(self, server: Server, connection: ServerConnection) -> int:
        """Ask what it does not log; return the number of its newest file, 0 if that is unknown."""
        filters = server.filters
        before = filters.binary_log
        number = 0
        try:
            number, filters.binary_log = await binary_log(connection)
        except ServerRefusedError as error:
            filters.binary_log = None
            self._cannot_see(server, error)
        if filters.binary_log and filters.binary_log != before:
            _log.warning("server %s does not log everything: %s", server.name, filters.binary_log)
        return number

    async def _ask_applier(self, server: Server, connection: ServerConnection) -> None:
        try:
            applier = await left_out_by_applier(connection)
        except ServerRefusedError as error:
            server.filters.applier = None
            self._cannot_see(server, error)
        else:
            server.filters.applier = applier

    def _cannot_see(self, server: Server, error: ServerRefusedError) -> None:
        if server not in self._filters_hidden:
            self._filters_hidden.add(server)
            _log.warning(
                "the monitor may not see what replication leaves out at %s (%s), so a replica with"
                " filters would be read; %s TO %s",
                server.name,
                error,
                RIGHTS,
                self._shared.config.monitor_user,
            )

    def _judge_filters(self) -> None:
        topology = self._shared.topology
        primary = topology.primary
        for replica in (*topology.replicas, *topology.standby):
            filters = replica.filters
            cause = filters.judge(primary.filters)
            self._shared.metrics.filtered(replica.name, filters.lacking)
            if cause:
                _log.error(
                    "replica %s lacks writes whose GTIDs it has, since replication leaves them out"
                    " (%s); guarded reads %s",
                    replica.name,
                    cause,
                    "go there all the same (filtered-replicas = allow)"
                    if filters.allowed
                    else "do not go there until it is made anew (filtered-replicas = refuse)",
                )
        self._shared.metrics.filtered(primary.name, lacking=False)

    async def _sources(self, server: Server, connection: ServerConnection) -> frozenset[str] | None:
        """The servers that a server replicates from; None if that may not be seen."""
        try:
            found = await sources(connection)
        except ServerRefusedError as error:
            if server not in self._sources_hidden:
                self._sources_hidden.add(server)
                _log.error(
                    "whether server %s replicates cannot be seen, so it is never followed as the"
                    " primary: %s; GRANT REPLICATION CLIENT ON *.* TO %s",
                    server.name,
                    error,
                    self._shared.config.monitor_user,
                )
            return None
        self._sources_hidden.discard(server)
        return found
