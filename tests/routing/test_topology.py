"""What a server has proved, to which of its incarnations that belongs, and when it is asked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.gtid import EMPTY, GtidSet
from routing.topology import Role, Server, Topology

U = "11111111-1111-1111-1111-111111111111"
V = "22222222-2222-2222-2222-222222222222"
STARTED = (100.0, 101.0)


def gtids(text: str) -> GtidSet:
    return GtidSet.parse(text)


@pytest.fixture
def server() -> Server:
    found = Server("replica:3306", Role.REPLICA)
    found.observed(U, STARTED, gtids(f"{V}:1-5"), EMPTY)
    return found


def test_names_and_roles() -> None:
    topology = Topology("a:1", ["b:2", "c:3"])
    assert [(server.name, server.role) for server in topology.servers] == [
        ("a:1", Role.PRIMARY),
        ("b:2", Role.REPLICA),
        ("c:3", Role.REPLICA),
    ]
    assert Topology("a:1", []).replicas == []


def test_a_server_that_was_not_asked_has_proved_nothing() -> None:
    server = Server("replica:3306", Role.REPLICA)
    assert server.applied == EMPTY
    assert server.epoch == 0
    server.proved(gtids(f"{V}:1"), 1)
    assert server.applied == EMPTY


# Proofs.


def test_proofs_add_up(server: Server) -> None:
    server.proved(gtids(f"{V}:8"), server.epoch)
    server.proved(gtids(f"{V}:6-7"), server.epoch)
    server.proved(gtids(f"{U}:1"), server.epoch)
    assert server.applied == gtids(f"{U}:1,{V}:1-8")
    server.proved(gtids(f"{V}:2"), server.epoch)
    assert server.applied == gtids(f"{U}:1,{V}:1-8")


def test_many_proofs_add_up(server: Server) -> None:
    for number in range(10, 1000):
        server.proved(gtids(f"{V}:{number}"), server.epoch)
        assert len(server._pending) < 100
    assert server.applied == gtids(f"{V}:1-5:10-999")


def test_a_connection_of_another_epoch_proves_nothing(server: Server) -> None:
    for epoch in (server.epoch - 1, server.epoch + 1):
        server.proved(gtids(f"{V}:9"), epoch)
    assert server.applied == gtids(f"{V}:1-5")


def test_what_is_read_of_a_server_adds_up(server: Server) -> None:
    epoch = server.epoch
    applied = server.applied
    assert server.observed(U, STARTED, gtids(f"{V}:1-9"), applied) == epoch
    assert server.applied == gtids(f"{V}:1-9")
    # An answer that was on its way for longer takes nothing back.
    assert server.observed(U, STARTED, gtids(f"{V}:1-7"), applied) == epoch
    assert server.applied == gtids(f"{V}:1-9")


def test_a_proof_of_another_connection_may_be_newer_than_what_is_read(server: Server) -> None:
    before = server.applied
    server.proved(gtids(f"{V}:20"), server.epoch)
    epoch = server.epoch
    assert server.observed(U, STARTED, gtids(f"{V}:1-8"), before) == epoch
    assert server.applied == gtids(f"{V}:1-8:20")


# Incarnations.


def test_another_uuid_is_another_server(server: Server) -> None:
    epoch = server.epoch
    assert server.observed(V, STARTED, gtids(f"{V}:1-9"), server.applied) == epoch + 1
    assert server.uuid == V
    assert server.applied == gtids(f"{V}:1-9")


def test_gtids_that_are_gone_begin_anew(server: Server) -> None:
    epoch = server.epoch
    server.proved(gtids(f"{V}:6"), epoch)
    before = server.applied
    assert server.observed(U, STARTED, gtids(f"{V}:1-5"), before) == epoch + 1
    assert server.applied == gtids(f"{V}:1-5")
    server.proved(gtids(f"{V}:6"), epoch)  # by a WAIT of the incarnation before
    assert server.applied == gtids(f"{V}:1-5")


def test_pending_proofs_end_with_their_incarnation(server: Server) -> None:
    server.proved(gtids(f"{V}:6"), server.epoch)
    server.observed(V, STARTED, EMPTY, EMPTY)
    assert server.applied == EMPTY


@pytest.mark.parametrize(
    ("started", "same"),
    [
        ((100.0, 101.0), True),
        ((100.9, 101.9), True),
        ((99.1, 100.1), True),
        ((95.0, 105.0), True),  # the answer took long
        ((50.0, 100.5), True),
        ((103.0, 104.0), False),
        ((160.0, 161.0), False),
        ((160.0, 300.0), False),
        ((10.0, 11.0), False),
    ],
)
def test_a_restart_is_seen_by_the_start(
    server: Server, started: tuple[float, float], same: bool
) -> None:
    epoch = server.epoch
    server.observed(U, started, gtids(f"{V}:1-5"), server.applied)
    assert (server.epoch == epoch) is same


def test_clocks_that_drift_apart_are_no_restart(server: Server) -> None:
    epoch = server.epoch
    for step in range(1, 101):
        started = (STARTED[0] + 0.5 * step, STARTED[1] + 0.5 * step)
        server.observed(U, started, gtids(f"{V}:1-5"), server.applied)
    assert server.epoch == epoch


def test_a_restarted_server_keeps_only_what_it_shows_now(server: Server) -> None:
    server.proved(gtids(f"{V}:6-9"), server.epoch)
    server.observed(U, (900.0, 901.0), gtids(f"{V}:1-9"), server.applied)
    assert server.applied == gtids(f"{V}:1-9")
    server.observed(U, (1900.0, 1901.0), gtids(f"{V}:1-8"), server.applied)
    assert server.applied == gtids(f"{V}:1-8")


class _Truth:
    """One real server, and connections whose answers are on their way."""

    def __init__(self) -> None:
        self.incarnation = 0
        self.executed = 1
        self.answers: list[tuple[int, int, GtidSet]] = []


@given(st.lists(st.integers(0, 5), max_size=40))
def test_nothing_counts_as_applied_that_the_server_has_not(steps: list[int]) -> None:
    """Commits, questions, answers in order, waits that return 0, and restarts that lose all."""
    server = Server("s:1", Role.REPLICA)
    truth = _Truth()

    def executed() -> GtidSet:
        return gtids(f"{V}:1-{truth.executed}")

    def ask() -> int:
        before = server.applied
        started = (1000.0 * truth.incarnation, 1000.0 * truth.incarnation + 1)
        return server.observed(U, started, executed(), before)

    epochs = {0: ask()}
    for step in steps:
        if step <= 1:
            truth.executed += 1
        elif step == 2:
            epochs[truth.incarnation] = ask()
        elif step == 3 and truth.incarnation in epochs:
            server.proved(executed(), epochs[truth.incarnation])
        elif step == 4:
            truth.incarnation += 1
            truth.executed = 1
            epochs[truth.incarnation] = ask()
        else:
            # A proof of the incarnation before, which arrives late.
            server.proved(gtids(f"{V}:1-99"), epochs.get(truth.incarnation - 1, -1))
        assert server.applied <= executed()


# When it is asked.


def test_each_wait_that_runs_out_doubles_the_pause(server: Server) -> None:
    now = 50.0
    pauses = []
    for _ in range(7):
        server.timed_out(now)
        pauses.append(server.behind_until - now)
        now = server.behind_until
    assert pauses == [0.25, 0.5, 1.0, 2.0, 4.0, 4.0, 4.0]


def test_waits_that_run_out_together_count_as_one(server: Server) -> None:
    for _ in range(10):
        server.timed_out(50.0)
    assert server.behind_until == 50.25


@pytest.mark.parametrize("proof", ["wait", "observed", "new epoch"])
def test_progress_ends_the_pause(server: Server, proof: str) -> None:
    server.timed_out(50.0)
    server.timed_out(51.0)
    if proof == "wait":
        server.proved(gtids(f"{V}:6"), server.epoch)
    elif proof == "observed":
        server.observed(U, STARTED, gtids(f"{V}:1-6"), server.applied)
    else:
        server.observed(V, STARTED, EMPTY, EMPTY)
    assert server.behind_until == 0
    server.timed_out(60.0)
    assert server.behind_until == 60.25


def test_what_is_no_progress_does_not_end_the_pause(server: Server) -> None:
    server.timed_out(50.0)
    server.observed(U, STARTED, gtids(f"{V}:1-5"), server.applied)
    server.proved(gtids(f"{V}:1"), server.epoch - 1)
    assert server.behind_until == 50.25


def test_each_failure_to_connect_doubles_the_pause(server: Server) -> None:
    pauses = []
    for _ in range(7):
        server.unreachable(50.0)
        pauses.append(server.down_until - 50)
    assert pauses == [0.25, 0.5, 1.0, 2.0, 4.0, 4.0, 4.0]
    server.reached()
    assert server.down_until == 0
    server.unreachable(50.0)
    assert server.down_until == 50.25


def test_one_attempt_at_a_time_after_a_failure(server: Server) -> None:
    server.trying(55.0)
    assert server.down_until == 0  # a healthy server may be connected to by many
    server.unreachable(50.0)
    server.trying(55.0)
    assert server.down_until == 55.0
    server.trying(52.0)
    assert server.down_until == 55.0
