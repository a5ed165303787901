"""Who the primary of a group is, judged by what its members say of it; pure.

Theory of operation
===================

The group elects its primary itself, and opens it for writes when it has applied what the one before
had. So nothing is to be guessed here, only to be told apart:

* Which view counts. Members that are in no group see only themselves. A member that was frozen, and
  one that was cut off, hold a view of the past: so the view with the highest count of those that
  see a majority is taken, and of these the one that was asked for last. A view with a lower count
  than one that was taken before is never taken.
* Whether there is a *quorum*: a majority of the members reach each other. Without it the group
  commits nothing: a primary takes writes and does not answer them. So they are withheld, and what
  the primary has is not all that may have been committed elsewhere (`Topology.lacks_quorum`).
* Two groups that both see a majority, as when one was bootstrapped beside the other, are a dispute
  that only people can end.

A member that was elected is followed once it says so itself, takes writes, and has applied what it
has received, so that no acknowledged write seems to be lost; also if it stays read only, as in a
cluster that replicates from another. In multi-primary mode one of the
primaries gets all writes: the present one, or else the one with the lowest UUID.
"""

from typing import Final, NamedTuple

from routing.servers.group import ONLINE, Member, View
from routing.servers.topology import ProbeResult, Server, Topology

_OPENED_WITHIN_S: Final = 5.0
"""So long after it has applied everything a group may take to open its new primary."""


class Fitness(NamedTuple):
    """A server that is or should be a member.

    Attributes:
        server: the server, where it is known already.
        member: what the group says of it; None if it is not a member.
        fit: whether it may be read.
    """

    server: Server | None
    member: Member | None
    fit: bool


class GroupElection:
    """Judges the members of one group, again and again; as `routing.servers.failover.Election`.

    Attributes:
        obstacle: why the one that was elected is not followed; empty if nothing is in the way.
        kept: the UUID of the last primary; it decides nothing here.
        former: the UUIDs of earlier ones, likewise.
        stalled: the group commits nothing now, and does not answer who waits for that.
        several: the group has several primaries (multi-primary mode).
    """

    def __init__(self, topology: Topology) -> None:
        self.obstacle = ""
        self.kept = ""
        self.former: frozenset[str] = frozenset()
        self.stalled = False
        self.several = False
        self._topology = topology
        self._views: dict[Server, View] = {}
        self._lineage = ""  # of the view that was taken last,
        self._count = 0  # and its count
        # Which elected member has applied all that it has received, and since when.
        self._idle = "", 0.0

    def saw(self, server: Server, view: View | None) -> None:
        """A server has said what it sees; None if it did not answer, or was never a member."""
        if view is None:
            self._views.pop(server, None)
            return
        self._views[server] = view
        if view.takes_part and view.group:
            self._topology.group = view.group

    def decide(self, now: float) -> Server | None:
        """Judge the last looks; return the primary, or None while it is not clear.

        It also says why writes are withheld (`Topology.withhold`).

        Args:
            now: monotonic s; when the last of these looks had ended.
        """
        topology = self._topology
        self.obstacle = ""
        self.stalled = False
        views = self._current()
        if not views:
            if self._views:
                topology.withhold(self._outside(), lacks_quorum=True)
            return None  # nobody has said anything since the primary was followed
        majority = [view for view in views if view.has_quorum]
        if not majority:
            self.stalled = True
            topology.withhold(self._no_quorum(views), lacks_quorum=True)
            return None
        lineages = {view.lineage for view in majority}
        if len(lineages) > 1:
            topology.withhold(
                "there are two groups: servers were bootstrapped beside each other, and it is not"
                " clear which is the right one; STOP GROUP_REPLICATION on the members of the other",
                lacks_quorum=True,
            )
            return None
        view = max(majority, key=lambda view: (view.number, view.asked_at))
        self._lineage, self._count = view.lineage, view.number
        return self._elected(view)

    def on_primary(self, server: Server) -> None:
        """This server is the topology's primary now; what members said before counts no more."""
        self.obstacle = ""
        self._views.clear()
        self._topology.withhold("")

    def members(self) -> list[Fitness]:
        """Who is a member, and whether it may be read; of servers that are none, too."""
        views = self._current()
        majority = [view for view in views if view.has_quorum]
        view = max(majority or views, key=lambda view: (view.number, view.asked_at), default=None)
        if view is None:
            return []
        found: list[Fitness] = []
        servers = {server.uuid: server for server in self._topology.watched if server.uuid}
        for member in view.members:
            server = servers.get(member.uuid)
            own = self._views.get(server) if server is not None else None
            itself = None if own is None else own.own
            fit = member.state == ONLINE and (itself is None or itself.state == ONLINE)
            found.append(Fitness(server, member, fit))
        known = {member.uuid for member in view.members}
        found += [
            Fitness(server, None, False)
            for server in self._topology.watched
            if server.uuid not in known
        ]
        return found

    def _current(self) -> list[View]:
        """The views of those that take part, without those that are known to be of the past."""
        return [
            view
            for server, view in self._views.items()
            if server.probe_result is ProbeResult.ANSWERED
            and view.takes_part
            and (view.lineage != self._lineage or view.number >= self._count)
        ]

    def _outside(self) -> str:
        """Why nobody can tell who the members are."""
        states = [
            f"{server.name} is {own.state}"
            for server, view in self._views.items()
            if (own := view.own) is not None
        ]
        return f"no server is in a group ({', '.join(states) or 'none is a member'})"

    def _elected(self, view: View) -> Server | None:
        """Whom the group has elected, if that one can be followed."""
        topology = self._topology
        primary = topology.primary
        candidates = [member for member in view.members if member.is_primary]
        online = sorted(member for member in candidates if member.state == ONLINE)
        self.several = len(candidates) > 1
        if not online:
            names = " and ".join(self._name(member) for member in candidates)
            topology.withhold(
                f"the members of the group do not reach its primary {names}, and elect another"
                if candidates
                else "the group has no primary now",
                lacks_quorum=True,
            )
            return None
        if any(member.uuid == primary.uuid for member in online):
            topology.withhold("")
            return primary if primary.takes_writes else None
        member = online[0]
        servers = [server for server in topology.watched if server.uuid == member.uuid]
        self.obstacle = self._obstacle(servers[0]) if servers else "it was not reached yet"
        topology.withhold(
            f"the group has elected {self._name(member)}, which is not ready yet: {self.obstacle}"
            if self.obstacle
            else "",
            lacks_quorum=True,
        )
        return None if self.obstacle else servers[0]

    def _obstacle(self, server: Server) -> str:
        """What a member that was elected has still to do before it is followed."""
        if server.probe_result is not ProbeResult.ANSWERED:
            return "it does not answer"
        view = self._views.get(server)
        own = None if view is None else view.own
        if view is None or own is None or not own.is_primary:
            return "it does not know yet"
        if view.backlog:
            self._idle = "", 0.0
            return "it has not applied all that it has received"
        if server.takes_writes:
            return ""
        if self._idle[0] != server.uuid:
            self._idle = server.uuid, view.asked_at
        if view.asked_at - self._idle[1] < _OPENED_WITHIN_S:
            return "it is read only until it has applied what the one before had"
        return ""  # and will stay so: the group is a replica itself, or somebody wants it

    def _no_quorum(self, views: list[View]) -> str:
        """The sentence that says who reaches whom."""
        view = max(views, key=lambda view: (view.number, -len(view.unreachable)))
        own = view.own
        lost = " and ".join(self._name(member) for member in view.unreachable)
        return (
            f"the group has lost its quorum: {self._name(own) if own is not None else 'a member'}"
            f" does not reach {lost}, {len(view.unreachable)} of {len(view.members)} members; it"
            " commits nothing until a majority is there again, or group_replication_force_members"
            " says who is"
        )

    def _name(self, member: Member) -> str:
        """What a member is called here."""
        servers = self._topology.watched
        return next((s.name for s in servers if s.uuid == member.uuid), member.address)
