"""Finds out whether the servers are members of a group, who is one, and how it is."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from proxy.monitor.group_members import TABLES, view_of
from proxy.monitor.membership import Found
from proxy.server.errors import ServerRefusedError
from routing.servers.replication_status import MalformedStatusError

if TYPE_CHECKING:
    from proxy.monitor.membership import Membership
    from proxy.monitor.primary_election import PrimaryElection
    from proxy.server.connection import ServerConnection
    from proxy.shared.shared import Shared
    from routing.servers.group import View
    from routing.servers.group_election import GroupElection
    from routing.servers.topology import Server

_log = logging.getLogger(__name__)

_SOURCE = "the group"


class GroupWatch:
    """Asks on the monitor's connections; tells the election, and lets members come and go.

    Attributes:
        asks: servers are asked whether they are in a group.
    """

    def __init__(self, shared: Shared, election: PrimaryElection, membership: Membership) -> None:
        """Ask, unless the topology is static."""
        kind = shared.config.topology
        self._shared = shared
        self._election = election
        self._membership = membership
        self._hidden: set[Server] = set()  # may not be asked, which was logged
        self.asks = kind != "static"
        if kind == "group":
            election.follow_group()

    @property
    def group(self) -> GroupElection | None:
        """Judges the group; None where there is none, as far as is known."""
        return self._election.group

    async def ask(self, server: Server, connection: ServerConnection, asked_at: float) -> bool:
        """Ask a server what it sees; once one is in a group, that decides.

        Args:
            server: the server.
            connection: where to ask.
            asked_at: when the look at it began, monotonic s.

        Returns:
            Whether it may be asked: a right that is granted counts for new connections only.

        Raises:
            ServerRefusedError, ChannelClosedError, ProtocolError: as `query`.
        """
        view: View | None = None
        try:
            view = await view_of(connection, asked_at)
        except MalformedStatusError as error:
            _log.warning("server %s does not tell its group: %s", server.name, error)
        except ServerRefusedError as error:
            self._may_not_see(server, error)
            return False
        self._hidden.discard(server)
        own = None if view is None else view.own
        server.member_state = "" if own is None else own.state
        named = server in self._membership.configured  # those that were found may be in another one
        if view is not None and view.takes_part and self.group is None and named:
            _log.info("server %s is a member of the group %s", server.name, view.group)
            self._election.follow_group()
        if self.group is not None:
            self.group.saw(server, view)
        return True

    def _may_not_see(self, server: Server, error: ServerRefusedError) -> None:
        if server not in self._hidden:
            self._hidden.add(server)
            user = self._shared.config.monitor_user
            grants = [f"GRANT SELECT ON {table} TO {user}" for table in TABLES]
            _log.error(
                "what server %s sees of its group may not be seen: %s; %s",
                server.name,
                error,
                "; ".join(grants),
            )

    def gone(self, server: Server) -> None:
        """A server does not answer, or is watched no more."""
        self._hidden.discard(server)
        server.member_state = ""
        if self.group is not None:
            self.group.saw(server, None)

    def take_members(self) -> None:
        """Let the members of the group be the servers that there are."""
        group = self.group
        fitness = [] if group is None else group.members()
        if not fitness:
            return  # nobody knows: all stays as it is
        found = []
        for server, member, fit in fitness:
            state = "it is no member of the group" if member is None else f"it is {member.state}"
            if server is not None and (member or server in self._membership.configured):
                found.append(Found(server.name, _SOURCE, fit=fit, why=state))
            elif member is not None and member.host and member.port:
                found.append(Found(member.address, _SOURCE, member.uuid, fit, state))
        self._membership.apply(found)
