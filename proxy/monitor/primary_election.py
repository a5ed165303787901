"""Follows the primary in agreement with all workers, and reports its state."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from protocol.gtid import EMPTY
from proxy.shared.primary_epoch_file import PrimaryEpochFile
from proxy.state.sqlite_file import StateError
from proxy.state.state_file import PrimaryTerm
from proxy.wall_clock import utc_us
from routing.servers.failover import REOPEN, Election
from routing.servers.group_election import GroupElection
from routing.servers.topology import ProbeResult

if TYPE_CHECKING:
    from proxy.shared.shared import Shared
    from routing.servers.topology import Server

_log = logging.getLogger(__name__)

_FOLLOW: Final = (
    'set failover = "read_only" to follow promotions, or topology = "group" if the servers are'
    " members of a group"
)


class PrimaryElection:
    """What the monitor's looks mean for who the primary is.

    Without `failover`, and outside a group, no other server is followed; whether the primary takes
    writes is reported in any case. A group elects its primary itself (`follow_group`).

    A promotion counts once it is written (`proxy.state.state_file`): the first worker to write it
    has decided, and other workers find it there before they judge. So after each look at a server
    the file is read.
    """

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._election: Election | GroupElection | None = None
        self.group: GroupElection | None = None
        self._several = False
        if shared.config.failover == "read_only":
            self._election = Election(shared.topology)
        self._kept = PrimaryEpochFile(shared.config.state_dir)
        self._term = PrimaryTerm(0, "", "", 0)  # the last one that is known
        self._judging = asyncio.Lock()
        self._unkept = ""  # why nothing can be written
        self._trouble = ""
        self._read_write_replicas: set[Server] = set()

    def follow_group(self) -> GroupElection:
        """The servers are members of a group: whoever that elects is the primary."""
        if self.group is None:
            self._election = self.group = GroupElection(self._shared.topology)
        return self.group

    @property
    def promotes(self) -> bool:
        """Whether servers' own replication tells who the primary is, and not their group."""
        return self._election is not None and self.group is None

    @property
    def follows(self) -> bool:
        """Whether another server may become the primary."""
        return self._election is not None

    @property
    def missing(self) -> PrimaryTerm | None:
        """The last term, if its primary is a server that nobody has named."""
        return None if not self._term.number or self._known(self._term) else self._term

    async def begin(self) -> None:
        """Take up what is kept, before the first look at a server.

        Raises:
            StateError: the state file cannot be used.
        """
        if self._election is None:
            return
        self._learn(self._election, await self._kept.read())
        if self.group is not None:
            return  # the group knows who it is now
        server = self._known(self._term)
        if server is not None and server is not self._shared.topology.primary:
            _log.warning(
                "server %s is the primary since term %d, as the state file says; %s is configured",
                server.name,
                self._term.number,
                self._shared.topology.primary.name,
            )
            self._shared.topology.promote(server)

    def on_unwatched(self) -> None:
        """Nobody looks at the servers any more: nothing is known to be wrong."""
        self._trouble = ""
        self._read_write_replicas.clear()
        self._shared.metrics.unfit("")

    def end(self) -> None:
        """Judge no more."""
        self._kept.close()

    async def judge(self) -> None:
        """Judge the last looks at the servers."""
        async with self._judging:
            obstacle = ""
            if self._election is not None:
                try:
                    await self._agree(self._election)
                    unkept = ""
                except StateError as error:
                    unkept = str(error)
                if unkept and unkept != self._unkept:
                    _log.error("%s", unkept)
                self._unkept = unkept
                obstacle = unkept or self._election.obstacle
                if self.group is None:
                    self._warn_of_read_write_replicas()
                else:
                    self._tell_of_group(self.group)
            self._shared.metrics.primary_disputed(bool(self._shared.topology.rivals))
            self._tell(self._judged(obstacle))

    def _tell_of_group(self, group: GroupElection) -> None:
        """Log and count how the group is, and let go who waits for what it will not answer."""
        shared = self._shared
        shared.metrics.group_without_quorum(shared.topology.lacks_quorum)
        if group.several is not self._several:
            self._several = group.several
            if group.several:
                _log.warning(
                    "the group is in multi-primary mode: all writes go to %s, the other primaries"
                    " are read like secondaries",
                    shared.topology.primary.name,
                )
        if group.stalled:
            shared.sessions.leave_stuck_writes(shared.topology.withheld)

    async def _agree(self, election: Election | GroupElection) -> None:
        """Find out who the primary is, and follow it.

        Raises:
            StateError: that cannot be kept, or what others have kept not be read; nobody is
                followed then.
        """
        shared = self._shared
        try:
            self._learn(election, await self._kept.read())
            self._follow_term(election)
        finally:
            server = election.decide(shared.now())  # so that rivals get no write in any case
        if server is None or (server.name, server.uuid) == (
            self._term.address,
            self._term.server_uuid,
        ):
            return
        us = utc_us()
        await self._kept.add(PrimaryTerm(self._term.number + 1, server.name, server.uuid, us))
        self._learn(election, await self._kept.read())  # another worker may have been faster
        self._follow_term(election)
        election.decide(shared.now())  # who rivals it

    def _learn(self, election: Election | GroupElection, terms: list[PrimaryTerm]) -> None:
        """Take what is kept; `terms` is all of it."""
        if not terms or terms[-1] == self._term:
            return
        self._term = terms[-1]
        self._shared.metrics.primary_term(self._term.number)
        election.kept = self._term.server_uuid
        election.former = frozenset(term.server_uuid for term in terms) - {election.kept}
        if self.group is None and self._known(self._term) is None:
            _log.warning(
                "state file: the primary since term %d is %s, which is not configured; it is %s."
                " Each cluster needs a state-dir of its own",
                self._term.number,
                self._term.address,
                "looked for" if self._shared.config.topology == "auto" else "passed over",
            )

    def _known(self, term: PrimaryTerm) -> Server | None:
        """Its primary; one that stands by has to show that it is that server."""
        topology = self._shared.topology
        server = next((server for server in topology.watched if server.name == term.address), None)
        if (
            self.group is None
            and server in topology.standby
            and (not server.takes_writes or server.uuid != term.server_uuid)
        ):
            return None
        return server

    def _follow_term(self, election: Election | GroupElection) -> None:
        """Route to the primary of the last term."""
        shared = self._shared
        old = shared.topology.primary
        server = self._known(self._term)
        if server is None or server is old:
            return
        _log.warning(
            "server %s is the primary now, %s was (term %d)",
            server.name,
            old.name,
            self._term.number,
        )
        promote(shared, server)
        election.on_primary(server)
        for other in shared.topology.servers:
            other.errant = EMPTY
            shared.metrics.errant_gtids(other.name, 0)

    def _judged(self, obstacle: str) -> str:
        """Why clients' writes cannot be served; empty if they can, as far as is known."""
        topology = self._shared.topology
        primary = topology.primary
        if topology.rivals:
            return (
                f"{_names(topology.rivals)} take writes, and it is not clear which is the primary:"
                " none gets a write until all but one are read only, replicate or are gone"
            )
        if topology.withheld:
            return topology.withheld
        if primary.probe_result is ProbeResult.GONE:
            why = f"the primary {primary.name} cannot be reached"
        elif primary.probe_result is ProbeResult.ANSWERED and primary.read_only:
            why = f"the primary {primary.name} is read only"
        else:
            return ""
        if self.group is not None:
            return why
        able = [other for other in topology.replicas if other.takes_writes and not other.sources]
        if not able:
            return why
        if self._election is None:
            return f"{why}; {_names(able)} takes writes, but is not followed: {_FOLLOW}"
        obstacle = obstacle or f"nobody was seen to open it; {REOPEN}"
        return f"{why}; {_names(able)} takes writes, but is not followed: {obstacle}"

    def _tell(self, trouble: str) -> None:
        if trouble == self._trouble:
            return
        if trouble:
            _log.error("no write is served: %s", trouble)
        else:
            _log.warning(
                "writes are served again; the primary is %s", self._shared.topology.primary.name
            )
        self._trouble = trouble
        self._shared.metrics.unfit(trouble)

    def _warn_of_read_write_replicas(self) -> None:
        """Log servers that take writes and are neither the primary nor one of its rivals."""
        topology = self._shared.topology
        read_write = {
            other
            for other in topology.replicas
            if other.takes_writes and other.uuid != topology.primary.uuid
        }
        read_write.difference_update(topology.rivals)
        for server in read_write - self._read_write_replicas:
            _log.warning(
                "server %s takes writes, too, and gets none here: the primary is %s; make the other"
                " one read only",
                server.name,
                topology.primary.name,
            )
        self._read_write_replicas = read_write


def promote(shared: Shared, server: Server) -> None:
    """Another server is the primary: sessions, which lived on the old one, have to end."""
    if server in shared.topology.standby:
        shared.topology.add_replica(server)
        shared.sessions.on_replica_added(shared.topology)
    shared.pool.drop_all(shared.topology.primary, "changed")
    shared.pool.drop_all(server, "changed")
    shared.topology.promote(server)
    shared.metrics.server_known(server.name, server.role)
    shared.metrics.promoted()
    shared.sessions.leave_primary()


def _names(servers: list[Server]) -> str:
    return " and ".join(server.name for server in servers)
