"""Which server is the primary, judged by looking at the servers."""

import pytest

from protocol.gtid import GtidSet
from routing.servers.failover import Election
from routing.servers.topology import ProbeResult, Server, Topology

UUIDS = {
    name: f"{digit * 8}-1111-1111-1111-111111111111"
    for name, digit in (("a", "1"), ("b", "2"), ("c", "3"))
}
SOURCE = UUIDS["a"]


class World:
    """Servers a, b and c, and an election that looks at them again and again."""

    def __init__(self) -> None:
        self.topology = Topology("a:1", ["b:1", "c:1"])
        self.a, self.b, self.c = self.topology.servers
        self.election = Election(self.topology)
        self.now = 0.0
        self.starts = dict.fromkeys(self.topology.servers, 100.0)
        self.looks = {
            server: (ProbeResult.ANSWERED, True, frozenset({SOURCE})) for server in (self.b, self.c)
        }
        self.looks[self.a] = (ProbeResult.ANSWERED, False, frozenset())
        self.has = dict.fromkeys(self.topology.servers, f"{SOURCE}:1-10")

    def sees(
        self,
        server: Server,
        read_only: bool = False,
        sources: frozenset[str] | None = frozenset(),
        result: ProbeResult = ProbeResult.ANSWERED,
    ) -> None:
        """Set what looks at a server find from now on."""
        self.looks[server] = (result, read_only, sources)

    def gone(self, server: Server) -> None:
        self.looks[server] = (ProbeResult.GONE, *self.looks[server][1:])

    def restarted(self, server: Server) -> None:
        self.starts[server] += 1000

    def look_at(self, server: Server) -> str | None:
        """Look at one server, and judge; returns the name of the primary, or None."""
        self.now += 1
        result, read_only, sources = self.looks[server]
        server.seen_at = self.now
        self.now += 1
        server.probe_result = result
        if result is ProbeResult.ANSWERED:
            start = self.starts[server]
            executed = GtidSet.parse(self.has[server])
            uuid = UUIDS[server.name[0]]
            server.observe(uuid, (start, start + 1), executed, server.applied)
            server.sources = sources
            server.set_read_only(read_only)
        found = self.election.decide(self.now)
        if found is not None and found is not self.topology.primary:
            self.topology.promote(found)
            self.election.on_primary(found)
        return None if found is None else found.name

    def look(self, rounds: int = 2) -> str | None:
        """Look at all servers."""
        found = None
        for _ in range(rounds):
            for server in (self.a, self.b, self.c):
                found = self.look_at(server)
        return found

    @property
    def rivals(self) -> list[str]:
        return [server.name for server in self.topology.rivals]


@pytest.fixture
def world() -> World:
    found = World()
    assert found.look() == "a:1"
    return found


def test_a_promotion_in_good_order(world: World) -> None:
    world.sees(world.a, read_only=True)
    assert world.look() is None
    world.sees(world.b)
    assert world.look() == "b:1"
    assert not world.rivals


def test_a_promotion_after_a_crash(world: World) -> None:
    world.has[world.a] = f"{SOURCE}:1-11"  # what nobody received is lost
    world.look()
    world.gone(world.a)
    world.sees(world.b)
    assert world.look() == "b:1"


def test_one_that_restarts_writable(world: World) -> None:
    world.gone(world.a)
    world.restarted(world.b)
    world.sees(world.b)
    assert world.look() is None
    world.sees(world.b, read_only=True)
    world.look()
    world.sees(world.b)
    assert world.look() == "b:1", "somebody opens it"


def test_one_that_replicates(world: World) -> None:
    world.gone(world.a)
    world.sees(world.b, sources=frozenset({SOURCE}))
    assert world.look() is None
    world.sees(world.b, sources=frozenset({""}))  # configured, and never connected
    assert world.look() is None
    assert not world.rivals
    world.sees(world.b)
    assert world.look() == "b:1"


def test_one_of_which_that_cannot_be_seen(world: World) -> None:
    world.sees(world.b, sources=None)
    assert world.look() is None
    assert world.rivals == ["a:1", "b:1"]
    world.gone(world.a)
    assert world.look() is None
    assert "REPLICATION CLIENT" in world.election.obstacle
    world.sees(world.b)
    assert world.look() == "b:1"


def test_one_that_lacks_what_the_old_primary_had(world: World) -> None:
    world.has[world.a] = f"{SOURCE}:1-11"
    world.look()
    world.sees(world.a, read_only=True)
    world.sees(world.b)
    assert world.look() is None
    assert f"{SOURCE}:11" in world.election.obstacle
    world.has[world.b] = f"{SOURCE}:1-11"
    assert world.look() == "b:1"


def test_one_that_lacks_what_nobody_has_any_more(world: World) -> None:
    world.has[world.a] = f"{SOURCE}:1-11"
    world.look()
    world.sees(world.a, read_only=True)
    world.sees(world.b)
    assert world.look() is None
    world.has[world.a] = f"{SOURCE}:1-10"  # the old primary was made anew
    assert world.look() == "b:1"


def test_what_was_written_on_the_old_primary_when_it_was_closed_already(world: World) -> None:
    world.sees(world.a, read_only=True)
    world.has[world.a] = f"{SOURCE}:1-10:15"
    world.look()
    world.sees(world.b)
    assert world.look() == "b:1"


def test_an_old_primary_that_was_left_open_and_replicates_from_the_new_one(world: World) -> None:
    world.sees(world.b)
    world.sees(world.a, sources=frozenset({UUIDS["b"]}))
    assert world.look() == "b:1"


def test_two_that_take_writes(world: World) -> None:
    world.sees(world.b)
    assert world.look() is None
    assert world.rivals == ["a:1", "b:1"]
    world.sees(world.b, read_only=True)
    assert world.look() == "a:1"
    assert not world.rivals
    world.sees(world.b)
    world.look()
    world.sees(world.a, read_only=True)
    assert world.look() == "b:1"
    assert not world.rivals


def test_two_that_were_opened(world: World) -> None:
    world.sees(world.b)
    world.sees(world.c)
    world.gone(world.a)
    assert world.look() is None
    assert world.rivals == ["b:1", "c:1"]
    world.gone(world.c)
    assert world.look() == "b:1"


def test_a_primary_that_was_closed_before_the_other_was_opened_disputes_nothing(
    world: World,
) -> None:
    world.sees(world.a, read_only=True)
    world.sees(world.b)
    assert world.look_at(world.b) is None  # the last look at the first one is older
    assert not world.rivals
    assert world.look_at(world.a) == "b:1"


def test_a_primary_that_refuses_the_monitor_is_not_gone(world: World) -> None:
    world.sees(world.b)
    world.sees(world.a, result=ProbeResult.REFUSED)
    assert world.look() is None
    assert world.rivals == ["a:1", "b:1"]


def test_an_old_primary_that_comes_back_writable(world: World) -> None:
    world.gone(world.a)
    world.sees(world.b)
    world.look()
    world.sees(world.a)  # it stood still
    assert world.look() == "b:1"
    world.restarted(world.a)
    assert world.look() == "b:1"
    assert not world.rivals
    world.gone(world.b)
    assert world.look() is None, "nobody has opened it"
    world.sees(world.b)
    world.sees(world.a, read_only=True)
    assert world.look() == "b:1"
    world.sees(world.a)
    assert world.look() is None, "somebody has"
    assert world.rivals == ["b:1", "a:1"]


def test_the_primary_by_a_second_name_is_no_rival(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name of its own leads to whichever server is the primary, and all are named as well."""
    monkeypatch.setitem(UUIDS, "b", UUIDS["a"])
    world.sees(world.b)
    assert world.look() == "a:1"
    assert world.topology.rivals == []
    world.sees(world.b, read_only=True)
    world.look()
    world.sees(world.b)  # which is seen by that name a look earlier, or later
    assert world.look() == "a:1"
    assert world.topology.rivals == []


def test_one_that_opened_before_another_was_followed_is_its_rival(world: World) -> None:
    """Another worker has decided, which had not seen that this server was opened."""
    world.has[world.b] = f"{SOURCE}:1-9"
    world.look()
    world.sees(world.a, read_only=True)
    world.sees(world.b)
    world.sees(world.c)
    assert world.look() is None
    world.topology.promote(world.c)
    world.election.on_primary(world.c)
    assert world.election.decide(world.now) is None
    assert world.rivals == ["c:1", "b:1"]


class TestStart:
    """At the start, no server has been seen yet."""

    def test_the_one_that_takes_writes(self) -> None:
        world = World()
        world.sees(world.a, read_only=True)
        world.sees(world.b)
        assert world.look(1) == "b:1"

    def test_with_an_old_primary_that_is_gone(self) -> None:
        world = World()
        world.gone(world.a)
        world.sees(world.b)
        assert world.look(1) == "b:1"

    def test_not_before_all_were_looked_at(self) -> None:
        world = World()
        world.sees(world.b)
        world.gone(world.c)
        assert world.look_at(world.b) is None
        assert world.look_at(world.a) is None
        assert not world.rivals
        assert world.look_at(world.c) is None
        assert world.rivals == ["a:1", "b:1"]

    def test_two_of_them(self) -> None:
        world = World()
        world.sees(world.b)
        assert world.look(1) is None
        assert world.rivals == ["a:1", "b:1"]
        world.sees(world.b, read_only=True)
        assert world.look() == "a:1"

    def test_one_that_lacks_what_another_has(self) -> None:
        world = World()
        world.gone(world.a)
        world.sees(world.b)
        world.has[world.b] = f"{SOURCE}:1-9"
        assert world.look() is None
        assert "c:1" in world.election.obstacle

    def test_one_that_lacks_what_only_another_has_written(self) -> None:
        world = World()
        world.sees(world.a, read_only=True)
        world.sees(world.b)
        world.has[world.a] = f"{SOURCE}:1-12"  # never received by anybody
        world.has[world.c] = f"{SOURCE}:1-10,{UUIDS['c']}:1"
        assert world.look(1) == "b:1"

    def test_one_that_replicates_is_none(self) -> None:
        world = World()
        world.sees(world.a, read_only=True)
        world.sees(world.b, sources=frozenset({SOURCE}))
        assert world.look() is None
        world.sees(world.b, sources=None)
        assert world.look() is None
