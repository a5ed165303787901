"""Who the primary of a group is, told from what its members say."""

import pytest

from routing.servers.group import Member, View, view
from routing.servers.group_election import GroupElection
from routing.servers.replication_status import MalformedStatusError
from routing.servers.topology import ProbeResult, Server, Topology

GROUP = "aaaaaaaa-0000-4000-8000-000000000001"
NAMES = ("a", "b", "c")
ONLINE, RECOVERING, OFFLINE = "ONLINE", "RECOVERING", "OFFLINE"
ERROR, UNREACHABLE = "ERROR", "UNREACHABLE"


def member(name: str, state: str = ONLINE, role: str = "SECONDARY") -> Member:
    return Member(name, name, 3306, state, role)


class World:
    """Three servers, `a:3306` the configured primary; each has its name as UUID."""

    def __init__(self) -> None:
        self.topology = Topology("a:3306", ["b:3306", "c:3306"])
        self.election = GroupElection(self.topology)
        self.now = 0.0
        for server in self.topology.servers:
            server.uuid = server.name[0]
            server.probe_result = ProbeResult.ANSWERED
            server.set_read_only(server.uuid != "a")

    def server(self, name: str) -> Server:
        return next(server for server in self.topology.watched if server.uuid == name)

    def sees(
        self,
        observer: str,
        *members: Member,
        number: int = 1,
        lineage: str = "7",
        backlog: bool = False,
    ) -> None:
        self.now += 1
        seen = View(observer, GROUP, lineage, number, members, backlog, self.now)
        self.election.saw(self.server(observer), seen)

    def all_see(self, primary: str, number: int = 1, among: tuple[str, ...] = NAMES) -> None:
        members = [
            member(name, role="PRIMARY" if name == primary else "SECONDARY") for name in among
        ]
        for name in among:
            self.sees(name, *members, number=number)

    def decide(self) -> str:
        server = self.election.decide(self.now)
        return "" if server is None else server.uuid

    def fit(self) -> dict[str, bool]:
        return {
            found.server.uuid if found.server is not None else found.member.uuid: found.fit  # type: ignore[union-attr]
            for found in self.election.members()
        }


@pytest.fixture
def world() -> World:
    return World()


def test_all_agree(world: World) -> None:
    world.all_see("a")
    assert world.decide() == "a"
    assert world.topology.withheld == ""
    assert not world.topology.lacks_quorum
    assert world.topology.group == GROUP
    assert world.fit() == {"a": True, "b": True, "c": True}


def test_nobody_has_said_anything(world: World) -> None:
    assert world.decide() == ""
    assert world.topology.withheld == ""
    assert world.fit() == {}


def test_an_elected_member_is_followed_when_it_is_ready(world: World) -> None:
    world.all_see("b")
    assert world.decide() == ""
    assert world.topology.lacks_quorum
    assert "elected b:3306" in world.topology.withheld
    assert "read only" in world.topology.withheld
    world.server("b").set_read_only(False)
    members = (member("a"), member("b", role="PRIMARY"), member("c"))
    world.sees("b", *members, backlog=True)
    assert world.decide() == ""
    assert "has not applied" in world.election.obstacle
    world.sees("b", *members)
    assert world.decide() == "b"
    assert world.topology.withheld == ""


def test_a_primary_that_stays_read_only_is_followed_all_the_same(world: World) -> None:
    members = (member("a"), member("b", role="PRIMARY"), member("c"))
    world.sees("b", *members, backlog=True)
    for _ in range(5):
        world.sees("b", *members)
        assert world.decide() == ""
    world.sees("b", *members)
    assert world.decide() == "b"
    world.topology.promote(world.server("b"))
    world.election.on_primary(world.server("b"))
    world.sees("b", *members)
    assert world.decide() == ""
    assert world.topology.withheld == ""  # the server itself refuses writes


def test_an_elected_member_that_does_not_know_it_yet_is_waited_for(world: World) -> None:
    world.server("b").set_read_only(False)
    world.all_see("a")
    world.sees("c", member("a"), member("b", role="PRIMARY"), member("c"))
    assert world.decide() == ""
    assert world.election.obstacle == "it does not know yet"


def test_what_was_said_before_it_was_followed_counts_no_more(world: World) -> None:
    world.server("b").set_read_only(False)
    world.all_see("b")
    assert world.decide() == "b"
    world.topology.promote(world.server("b"))
    world.election.on_primary(world.server("b"))
    assert world.decide() == ""
    assert world.topology.withheld == ""
    world.all_see("b")
    assert world.decide() == "b"


def test_a_minority_withholds_writes_and_says_who_is_lost(world: World) -> None:
    world.sees("a", member("a", role="PRIMARY"), member("b", UNREACHABLE), member("c", UNREACHABLE))
    assert world.decide() == ""
    assert world.election.stalled
    assert world.topology.lacks_quorum
    assert "lost its quorum: a:3306 does not reach b:3306 and c:3306" in world.topology.withheld
    assert world.fit() == {"a": True, "b": False, "c": False}
    world.all_see("a")
    assert world.decide() == "a"
    assert not world.election.stalled


@pytest.mark.parametrize(
    ("members", "lost", "quorum"), [(2, 1, False), (3, 1, True), (4, 2, False), (5, 2, True)]
)
def test_half_is_no_majority(members: int, lost: int, quorum: bool) -> None:
    states = [member(str(n), UNREACHABLE if n < lost else ONLINE) for n in range(members)]
    assert View("4", GROUP, "7", 1, tuple(states)).has_quorum is quorum


def test_the_majority_is_believed_and_not_who_was_cut_off(world: World) -> None:
    world.sees("a", member("a", role="PRIMARY"), member("b", UNREACHABLE), member("c", UNREACHABLE))
    for name in "bc":
        world.sees(name, member("b", role="PRIMARY"), member("c"), number=2)
    world.server("b").set_read_only(False)
    assert world.decide() == "b"
    assert world.fit() == {"a": False, "b": True, "c": True}


def test_while_the_members_do_not_reach_the_primary_writes_are_withheld(world: World) -> None:
    for name in "bc":
        world.sees(name, member("a", UNREACHABLE, "PRIMARY"), member("b"), member("c"))
    world.sees("a", member("a", role="PRIMARY"), member("b"), member("c"))  # it has not noticed
    world.election.saw(world.server("a"), None)
    assert world.decide() == ""
    assert "do not reach its primary a:3306" in world.topology.withheld
    assert not world.election.stalled


def test_a_member_that_was_frozen_shows_the_past(world: World) -> None:
    world.server("b").set_read_only(False)
    world.all_see("a", number=4)
    assert world.decide() == "a"
    for name in "bc":
        world.sees(name, member("b", role="PRIMARY"), member("c"), number=5)
    assert world.decide() == "b"
    world.topology.promote(world.server("b"))
    world.election.on_primary(world.server("b"))
    # It wakes up, and takes itself for the primary; nobody else has been asked yet.
    world.sees("a", member("a", role="PRIMARY"), member("b"), member("c"), number=4)
    assert world.decide() == ""
    for name in "bc":
        world.sees(name, member("b", role="PRIMARY"), member("c"), number=5)
    assert world.decide() == "b"


def test_two_groups_are_a_dispute(world: World) -> None:
    world.sees("a", member("a", role="PRIMARY"), lineage="7", number=9)
    world.sees("b", member("b", role="PRIMARY"), member("c"), lineage="8")
    assert world.decide() == ""
    assert "two groups" in world.topology.withheld


def test_servers_outside_any_group(world: World) -> None:
    for name in NAMES:
        world.sees(name, member(name, OFFLINE, ""), lineage="")
    assert world.decide() == ""
    assert "no server is in a group (a:3306 is OFFLINE" in world.topology.withheld


@pytest.mark.parametrize("state", [RECOVERING, OFFLINE, ERROR, UNREACHABLE])
def test_members_that_are_not_online_are_not_fit(world: World, state: str) -> None:
    world.sees("a", member("a", role="PRIMARY"), member("b", state), member("c"))
    assert world.decide() == "a"
    assert world.fit() == {"a": True, "b": False, "c": True}


def test_a_member_knows_first_that_it_has_left(world: World) -> None:
    world.all_see("a")
    world.sees("b", member("b", OFFLINE, ""), lineage="")
    assert world.fit() == {"a": True, "b": False, "c": True}


def test_several_primaries_one_is_taken_and_kept(world: World) -> None:
    members = [member(name, role="PRIMARY") for name in NAMES]
    for name in NAMES:
        world.server(name).set_read_only(False)
        world.sees(name, *members)
    assert world.decide() == "a"
    assert world.election.several
    for name in "bc":
        world.sees(name, *members[1:], number=2)
    world.election.saw(world.server("a"), None)
    assert world.decide() == "b"


def test_a_server_that_does_not_answer_says_nothing(world: World) -> None:
    world.all_see("a")
    world.server("a").probe_result = ProbeResult.GONE
    assert world.decide() == ""  # `takes_writes` says so
    for server in world.topology.servers:
        server.probe_result = ProbeResult.GONE
    assert world.fit() == {}


def row(**columns: str) -> dict[str, bytes | None]:
    defaults = {"ID": "a", "HOST": "::1", "PORT": "3306", "STATE": ONLINE, "ROLE": "PRIMARY"}
    return {f"MEMBER_{name}": text.encode() for name, text in {**defaults, **columns}.items()}


def test_rows_are_read() -> None:
    seen = view("a", [row(), row(ID="b", STATE=RECOVERING)], GROUP, "17957:3", 5.0, backlog=True)
    assert seen is not None
    assert (seen.lineage, seen.number, seen.backlog, seen.asked_at) == ("17957", 3, True, 5.0)
    assert seen.members[0].address == "[::1]:3306"
    assert seen.takes_part
    assert view("a", [], "", "", 0.0, backlog=False) is None
    assert view("a", [row(ID="")], "", "", 0.0, backlog=False) is None
    alone = view("a", [row(STATE=OFFLINE)], GROUP, "", 0.0, backlog=False)
    assert alone is not None
    assert not alone.takes_part


@pytest.mark.parametrize("port", ["x", "123456", "-1"])
def test_a_port_that_is_none_is_refused(port: str) -> None:
    with pytest.raises(MalformedStatusError):
        view("a", [row(PORT=port)], GROUP, "7:1", 0.0, backlog=False)


def test_too_many_members_are_refused() -> None:
    with pytest.raises(MalformedStatusError):
        view("a", [row(ID=str(n)) for n in range(100)], GROUP, "7:1", 0.0, backlog=False)
