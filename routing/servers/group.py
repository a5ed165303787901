"""What the members of a group say of it (Group Replication); pure.

Each member has a view of its group: `performance_schema.replication_group_members`. Views have
numbers, ``17957273683967820:3``: the group's own, given when it was bootstrapped, and a count of
its changes of members. A view counts no elections. A member that reaches no majority of the members
keeps its last view, in which it marks the others as UNREACHABLE.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from routing.servers.replication_status import MalformedStatusError

ONLINE: Final = "ONLINE"
UNREACHABLE: Final = "UNREACHABLE"
_TAKES_PART: Final = (ONLINE, "RECOVERING")
"""States in which a member knows who else is one. Others see themselves alone, or nothing."""
_PRIMARY: Final = "PRIMARY"
_MOST: Final = 64
"""A group has at most 9 members."""


class Member(NamedTuple):
    """One member.

    Attributes:
        uuid: its `@@server_uuid`.
        host: where clients reach it (its report_host, or what its system calls itself).
        port: likewise.
        state: ONLINE, RECOVERING, OFFLINE, ERROR or UNREACHABLE.
        role: PRIMARY, SECONDARY, or nothing.
    """

    uuid: str
    host: str
    port: int
    state: str
    role: str

    @property
    def address(self) -> str:
        """``host:port``."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_primary(self) -> bool:
        """Whether it takes writes, as soon as it is ready for them."""
        return self.role == _PRIMARY


class View(NamedTuple):
    """What one server says.

    Attributes:
        observer: its `@@server_uuid`.
        group: the group's name, which is the UUID of its GTIDs.
        lineage: the number that the group was given when it was bootstrapped.
        number: which of its views this is.
        members: all of them.
        backlog: the server has not applied all that it has received.
        asked_at: when it was asked, monotonic s.
    """

    observer: str
    group: str
    lineage: str
    number: int
    members: tuple[Member, ...]
    backlog: bool = False
    asked_at: float = 0.0

    @property
    def own(self) -> Member | None:
        """The server itself."""
        return self.member(self.observer)

    @property
    def takes_part(self) -> bool:
        """Whether it is in the group, and so knows of the others."""
        own = self.own
        return own is not None and own.state in _TAKES_PART and bool(self.lineage)

    @property
    def unreachable(self) -> list[Member]:
        """Members that it does not reach."""
        return [member for member in self.members if member.state == UNREACHABLE]

    @property
    def has_quorum(self) -> bool:
        """Whether it reaches a majority, itself included: only then the group decides anything."""
        return 2 * len(self.unreachable) < len(self.members)

    def member(self, uuid: str) -> Member | None:
        """The member with this UUID."""
        return next((member for member in self.members if member.uuid == uuid), None)


def view(
    observer: str,
    rows: Iterable[Mapping[str, bytes | None]],
    group: str,
    view_id: str,
    asked_at: float,
    *,
    backlog: bool,
) -> View | None:
    """Read the rows of replication_group_members; None where the server was never a member.

    Args:
        observer: the server's UUID.
        rows: with the columns MEMBER_ID, MEMBER_HOST, MEMBER_PORT, MEMBER_STATE, MEMBER_ROLE.
        group: its group_replication_group_name.
        view_id: its VIEW_ID; empty outside a group.
        asked_at: as in `View`.
        backlog: as in `View`.

    Raises:
        MalformedStatusError: the rows make no sense.
    """
    members = tuple(_member(row) for row in rows)
    # A server that was never started as one shows one row with nothing but its state, or none.
    members = tuple(member for member in members if member.uuid)
    if not members:
        return None
    if len(members) > _MOST:
        raise MalformedStatusError(f"a group of {len(members)} members")
    lineage, _, count = view_id.partition(":")
    if not count.isdigit() or len(count) > 20:
        lineage, count = "", "0"
    return View(observer, group, lineage, int(count), members, backlog, asked_at)


def _member(row: Mapping[str, bytes | None]) -> Member:
    port = _text(row, "MEMBER_PORT") or "0"
    if not port.isdigit() or len(port) > 5:
        raise MalformedStatusError("a member's port is no number")
    return Member(
        _text(row, "MEMBER_ID"),
        _text(row, "MEMBER_HOST"),
        int(port),
        _text(row, "MEMBER_STATE"),
        _text(row, "MEMBER_ROLE"),
    )


def _text(row: Mapping[str, bytes | None], name: str) -> str:
    return (row.get(name) or b"").decode("utf-8", "replace")
