"""Finds the servers that replicate from the primary (`topology = auto`).

Theory of operation
===================

Each server that is watched is asked in each look which replicas it has (SHOW REPLICAS), also those
that were found so: what they report are the chains. From the primary and the servers of the
configuration downwards, all that is reported is there (`Membership`); servers of the configuration
stay in any case, as those to begin with. So does the primary of the last term, which the state file
names: after a promotion nobody may be there who reports it.

What a server reports, its replicas have told it themselves (`report_host`, `report_port`). So a
server that was found is used only when the monitor may log in there, and `server_uuid` there is the
one that was reported.

A server that is reported no more may have been stopped for good; or only its connection broke, its
source was restarted, or it is about to get another source. So it stays while it says that it
replicates from one of the servers that are watched, and while the primary takes no writes, since
then any of its replicas may become the next one. Else it is let go when `_LOOKS` have passed; one
that replicates from others is sent nothing from the first look on that sees it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy.monitor.membership import Found
from proxy.monitor.replicas import replicas
from proxy.monitor.sources import sources
from proxy.server.errors import ServerRefusedError
from routing.servers.replica_tree import MOST, replica_tree
from routing.servers.topology import ProbeResult

if TYPE_CHECKING:
    from proxy.monitor.membership import Membership
    from proxy.monitor.primary_election import PrimaryElection
    from proxy.server.connection import ServerConnection
    from proxy.shared.shared import Shared
    from routing.servers.replica_tree import Branch, Reported
    from routing.servers.topology import Server

_log = logging.getLogger(__name__)

_LOOKS: Final = 60
"""So many intervals after it was last reported a server is let go, if nothing speaks for it."""
_MOST_LOGGED: Final = 1024
_ANOTHER: Final = "its server_uuid is not the one that was reported"


class _Seen(NamedTuple):
    """A server that was reported.

    Attributes:
        found: as what.
        reported: it is still.
        at: when that was last so, or something else last spoke for it; monotonic s.
    """

    found: Found
    reported: bool
    at: float


class Discovery:
    """What one worker knows of the replicas that servers report."""

    def __init__(self, shared: Shared, election: PrimaryElection, membership: Membership) -> None:
        """Ask if the topology is `auto`."""
        self._shared = shared
        self._election = election
        self._membership = membership
        self._reports: dict[Server, list[Reported]] = {}
        self._sources: dict[Server, frozenset[str]] = {}  # of those that nobody reports
        self._seen: dict[str, _Seen] = {}  # by address
        self._refusing: set[Server] = set()  # which was logged
        self._logged: set[tuple[str, str]] = set()  # UUIDs of those that cannot be found, and why
        self._too_many = False

    @property
    def asks(self) -> bool:
        """Whether servers are asked for their replicas; the members of a group are not."""
        return self._shared.config.topology == "auto" and self._election.group is None

    async def ask(self, server: Server, connection: ServerConnection) -> bool:
        """Ask a server which replicas it has.

        Returns:
            Whether it may be asked: a right that is granted counts for new connections only.

        Raises:
            ChannelClosedError, ProtocolError: as `query`.
        """
        try:
            self._reports[server] = await replicas(connection)
        except ServerRefusedError as error:
            self._on_refusal(server, error)  # what it said before counts
        else:
            self._refusing.discard(server)
        seen = self._seen.get(server.name)
        if seen is not None and not seen.reported:
            try:
                self._sources[server] = await sources(connection)
            except ServerRefusedError:
                self._sources.pop(server, None)
        else:
            self._sources.pop(server, None)
        return server not in self._refusing

    def forget(self, server: Server) -> None:
        """A server has gone."""
        self._reports.pop(server, None)
        self._sources.pop(server, None)
        self._refusing.discard(server)

    def judge(self) -> None:
        """Let the servers that are reported come, and others go; to be called after each look."""
        if not self.asks:
            return
        if any(
            server.probe_result is ProbeResult.UNKNOWN for server in self._membership.configured
        ):
            return  # one of these may be reported by another name
        reports = {server.uuid: reported for server, reported in self._reports.items()}
        branches, complete = replica_tree(self._roots(), reports)
        self._warn(branches, complete)
        self._note(branches)
        missing = self._election.missing
        if missing is not None:
            found = Found(missing.address, "the state file", missing.server_uuid, False, _ANOTHER)
            self._seen[missing.address] = _Seen(found, False, self._shared.now())
        self._membership.apply([seen.found for seen in self._seen.values()])

    def _note(self, branches: list[Branch]) -> None:
        """Take down what is reported now, and forget what nothing speaks for any more."""
        now = self._shared.now()
        watched = {server.name: server for server in self._shared.topology.watched}
        reported = self._reported(branches, watched)
        configured = {server.uuid for server in self._membership.configured}
        tree = {branch.replica.uuid for branch in branches}
        oldest = now - _LOOKS * self._shared.config.monitor_interval
        spoken_for = tree.union(self._roots())
        for address, (found, _, at) in list(self._seen.items()):
            server = watched.get(address)
            met = server is not None and server.uuid == found.uuid
            elsewhere = found.uuid in configured or (found.uuid in tree and address not in reported)
            stays = self._stays(server, spoken_for)
            if met and not elsewhere and (stays or at > oldest):
                objection = self._objection(server)
                found = found._replace(fit=not objection, why=objection)
                self._seen[address] = _Seen(found, False, now if stays else at)
            else:
                del self._seen[address]
        for address, found in reported.items():
            if address in self._seen or len(self._seen) < MOST:
                self._seen[address] = _Seen(found, True, now)
            else:
                self._warn_of_too_many()

    def _reported(self, branches: list[Branch], watched: dict[str, Server]) -> dict[str, Found]:
        """The servers that are reported now, by the address where they are said to be.

        One that is not there, but has reported another server's address, is not used; nor does the
        other one suffer for it.
        """
        names = {server.uuid: server.name for server in watched.values()}
        reported: dict[str, Found] = {}
        for replica, source in branches:
            address = replica.address
            server = watched.get(address)
            fit = server is not None and server.uuid == replica.uuid
            if not address or (
                not fit and (address in reported or server in self._membership.configured)
            ):
                continue
            told_by = f"SHOW REPLICAS of {names.get(source)}"
            reported[address] = Found(address, told_by, replica.uuid, fit, _ANOTHER)
        return reported

    def _roots(self) -> list[str]:
        """The UUIDs of those to begin with."""
        return [
            self._shared.topology.primary.uuid,
            *(server.uuid for server in self._membership.configured),
        ]

    def _objection(self, server: Server | None) -> str:
        """Why a server that nobody reports is to be sent nothing; empty if it may be."""
        topology = self._shared.topology
        sources = frozenset() if server is None else self._sources.get(server, frozenset())
        # One of them may be the primary before this one, which is gone.
        watched = {other.uuid for other in topology.watched}
        if sources and sources.isdisjoint(watched) and topology.primary.takes_writes:
            return "it replicates from none of these servers"
        return ""

    def _stays(self, server: Server | None, spoken_for: set[str]) -> bool:
        """Whether a server that nobody reports may still be one of the cluster."""
        primary = self._shared.topology.primary
        if server is None:
            return False
        if server is primary or not primary.takes_writes:
            return True
        return server.probe_result is ProbeResult.ANSWERED and not spoken_for.isdisjoint(
            self._sources.get(server, ())
        )

    def _warn(self, branches: list[Branch], complete: bool) -> None:
        """Log what cannot be found."""
        watched = self._shared.topology.watched
        names = {server.uuid: server.name for server in watched}
        uuids = {server.name: server.uuid for server in watched}
        for replica, source in branches:
            fault = replica.fault
            other = uuids.get(replica.address, "")
            if other not in ("", replica.uuid):
                fault = f"at {replica.address}, which it reports, is {other}"
            if not fault or replica.uuid in names or len(self._logged) >= _MOST_LOGGED:
                continue
            if (replica.uuid, fault) not in self._logged:
                self._logged.add((replica.uuid, fault))
                _log.warning(
                    "a replica of %s, server_uuid %s, cannot be found: %s",
                    names.get(source),
                    replica.uuid,
                    fault,
                )
        if not complete:
            self._warn_of_too_many()

    def _warn_of_too_many(self) -> None:
        if not self._too_many:
            self._too_many = True
            _log.error("more than %d replicas are reported: the others are left out", MOST)

    def _on_refusal(self, server: Server, error: ServerRefusedError) -> None:
        if server in self._refusing:
            return
        self._refusing.add(server)
        _log.error(
            "server %s does not say which replicas it has, so none of them is found (topology ="
            " auto): %s; GRANT REPLICATION SLAVE ON *.* TO %s",
            server.name,
            error,
            self._shared.config.monitor_user,
        )
