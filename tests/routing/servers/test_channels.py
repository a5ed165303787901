"""Whether a replica replicates, by the rows that MySQL 9.7.4 shows in each state."""

from protocol.gtid import EMPTY
from routing.servers.channels import Channels, channels
from routing.servers.lag import Look
from routing.servers.replication_status import (
    NO_ERROR,
    Coordinator,
    Receiver,
    ThreadError,
    Worker,
)

A = "aaaaaaaa-0000-0000-0000-000000000001"
B = "bbbbbbbb-0000-0000-0000-000000000002"
DUPLICATE = ThreadError(1062, "Worker 1 failed executing transaction")
REFUSED = ThreadError(2003, "Error connecting to source. This was attempt 2/10")


def receiver(
    channel: str = "", state: str = "ON", error: ThreadError = NO_ERROR, source: str = A
) -> Receiver:
    return Receiver(channel, source, state == "ON", EMPTY, None, state == "CONNECTING", error)


def worker(channel: str = "", running: bool = True, error: ThreadError = NO_ERROR) -> Worker:
    return Worker(channel, None, None, running, error)


def of(
    *receivers: Receiver,
    workers: tuple[Worker, ...] = (worker(),),
    coordinators: tuple[Coordinator, ...] = (),
    delays: dict[str, int] | None = None,
) -> Channels:
    return channels(Look(receivers, workers, 0, EMPTY, coordinators, delays or {}), {A, B})


def state_of(found: Channels) -> tuple[bool, bool, str]:
    return found.replicating, found.stopped, found.text


def test_all_runs() -> None:
    assert state_of(of(receiver())) == (True, False, "running")
    # Not all workers need to: the coordinator ends when one fails.
    assert of(receiver(), workers=(worker(running=False), worker())).replicating


def test_it_was_stopped() -> None:
    off = (worker(running=False), worker(running=False))
    for found, text in (
        (of(receiver(state="OFF")), "its receiver is stopped"),
        (of(receiver(), workers=off), "its applier is stopped"),
        (of(receiver(), workers=()), "its applier is stopped"),  # never started
        (
            of(receiver(state="OFF"), workers=off),
            "its receiver is stopped; its applier is stopped",
        ),
    ):
        assert state_of(found) == (False, True, text)


def test_it_has_failed() -> None:
    failed = (worker(running=False), worker(running=False, error=DUPLICATE))
    general = Coordinator("", ThreadError(1872, "Coordinator stopped"))
    text = "its applier is stopped (error 1062: Worker 1 failed executing transaction)"
    assert state_of(of(receiver(), workers=failed, coordinators=(general,))) == (False, True, text)
    found = of(receiver(), workers=(worker(running=False),), coordinators=(general,))
    assert found.text == "its applier is stopped (error 1872: Coordinator stopped)"


def test_it_connects_again_and_again() -> None:
    found = of(receiver(state="CONNECTING", error=REFUSED))
    assert (found.replicating, found.stopped) == (False, False)
    assert "not connected to its source (error 2003: Error connecting" in found.text
    later = of(receiver(state="CONNECTING", error=ThreadError(2003, "This was attempt 3/10")))
    assert found.state == later.state != of(receiver(state="OFF")).state
    halves = of(receiver(state="CONNECTING", error=REFUSED), workers=(worker(running=False),))
    assert halves.stopped


def test_it_was_never_configured() -> None:
    found = of()
    assert state_of(found) == (False, True, "it has no replication channel")
    assert found.state != of(receiver()).state


def test_it_is_to_be_late() -> None:
    found = of(receiver(), delays={"": 3600})
    assert state_of(found) == (True, False, "running, 3600 s late (SOURCE_DELAY)")


def test_one_of_two_channels_of_the_cluster_works() -> None:
    found = of(receiver("a", "OFF"), receiver("b", source=B), workers=(worker("a"), worker("b")))
    assert state_of(found) == (False, False, "channel a: its receiver is stopped")


def test_channels_from_elsewhere_do_not_count_beside_the_cluster() -> None:
    other = receiver("other", "OFF", source="cccccccc-0000-0000-0000-000000000003")
    assert of(other, receiver()).replicating
    assert of(other).stopped


def test_a_member_of_a_group_has_recovered() -> None:
    recovery = receiver("group_replication_recovery", "OFF", source="")
    applier = receiver("group_replication_applier", source="dddddddd-0000-0000-0000-000000000004")
    workers = (worker("group_replication_applier"), worker("group_replication_recovery", False))
    assert of(recovery, applier, workers=workers).replicating
    left = receiver("group_replication_applier", "OFF", source=applier.source)
    assert of(recovery, left, workers=(worker("group_replication_applier", False),)).stopped
