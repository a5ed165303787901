"""What a server has proved, to which incarnation a proof belongs, and when the server is asked."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.gtid import EMPTY, GtidSet
from routing.servers.topology import Held, Role, Server, Topology
from tests.support.gtid_sets import gtids

U = "11111111-1111-1111-1111-111111111111"
V = "22222222-2222-2222-2222-222222222222"
W = "33333333-3333-3333-3333-333333333333"
STARTED = (100.0, 101.0)
STARTED_AGAIN = (200.0, 201.0)


@pytest.fixture
def server() -> Server:
    found = Server("replica:3306", Role.REPLICA)
    found.observe(U, STARTED, gtids(f"{V}:1-5"), EMPTY)
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
    server.add_proof(gtids(f"{V}:1"), 1)
    assert server.applied == EMPTY


# Proofs.


def test_proofs_add_up(server: Server) -> None:
    server.add_proof(gtids(f"{V}:8"), server.epoch)
    server.add_proof(gtids(f"{V}:6-7"), server.epoch)
    server.add_proof(gtids(f"{U}:1"), server.epoch)
    assert server.applied == gtids(f"{U}:1,{V}:1-8")
    server.add_proof(gtids(f"{V}:2"), server.epoch)
    assert server.applied == gtids(f"{U}:1,{V}:1-8")


def test_many_proofs_add_up(server: Server) -> None:
    for number in range(10, 1000):
        server.add_proof(gtids(f"{V}:{number}"), server.epoch)
        assert len(server._pending) < 100
    assert server.applied == gtids(f"{V}:1-5:10-999")


def test_a_connection_of_another_epoch_proves_nothing(server: Server) -> None:
    for epoch in (server.epoch - 1, server.epoch + 1):
        server.add_proof(gtids(f"{V}:9"), epoch)
    assert server.applied == gtids(f"{V}:1-5")


def test_what_is_read_of_a_server_adds_up(server: Server) -> None:
    epoch = server.epoch
    applied = server.applied
    assert server.observe(U, STARTED, gtids(f"{V}:1-9"), applied) == epoch
    assert server.applied == gtids(f"{V}:1-9")
    # An answer that was on its way for longer takes nothing back.
    assert server.observe(U, STARTED, gtids(f"{V}:1-7"), applied) == epoch
    assert server.applied == gtids(f"{V}:1-9")


def test_a_proof_of_another_connection_may_be_newer_than_what_is_read(server: Server) -> None:
    before = server.applied
    server.add_proof(gtids(f"{V}:20"), server.epoch)
    epoch = server.epoch
    assert server.observe(U, STARTED, gtids(f"{V}:1-8"), before) == epoch
    assert server.applied == gtids(f"{V}:1-8:20")


# Incarnations.


def test_another_uuid_is_another_server(server: Server) -> None:
    epoch = server.epoch
    assert server.observe(V, STARTED, gtids(f"{V}:1-9"), server.applied) == epoch + 1
    assert server.uuid == V
    assert server.applied == gtids(f"{V}:1-9")


def test_gtids_that_are_gone_begin_anew(server: Server) -> None:
    epoch = server.epoch
    server.add_proof(gtids(f"{V}:6"), epoch)
    before = server.applied
    assert server.observe(U, STARTED, gtids(f"{V}:1-5"), before) == epoch + 1
    assert server.applied == gtids(f"{V}:1-5")
    server.add_proof(gtids(f"{V}:6"), epoch)  # by a WAIT on the incarnation before
    assert server.applied == gtids(f"{V}:1-5")


def test_pending_proofs_end_with_their_incarnation(server: Server) -> None:
    server.add_proof(gtids(f"{V}:6"), server.epoch)
    server.observe(V, STARTED, EMPTY, EMPTY)
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
    server.observe(U, started, gtids(f"{V}:1-5"), server.applied)
    assert (server.epoch == epoch) is same


def test_clocks_that_drift_apart_are_no_restart(server: Server) -> None:
    epoch = server.epoch
    for step in range(1, 101):
        started = (STARTED[0] + 0.5 * step, STARTED[1] + 0.5 * step)
        server.observe(U, started, gtids(f"{V}:1-5"), server.applied)
    assert server.epoch == epoch


def test_a_restarted_server_keeps_only_what_it_shows_now(server: Server) -> None:
    server.add_proof(gtids(f"{V}:6-9"), server.epoch)
    server.observe(U, (900.0, 901.0), gtids(f"{V}:1-9"), server.applied)
    assert server.applied == gtids(f"{V}:1-9")
    server.observe(U, (1900.0, 1901.0), gtids(f"{V}:1-8"), server.applied)
    assert server.applied == gtids(f"{V}:1-8")


class _Truth:
    """One real server, and connections whose answers are on their way."""

    def __init__(self) -> None:
        self.incarnation = 0
        self.executed = 1
        self.answers: list[tuple[int, int, GtidSet]] = []


@given(st.lists(st.integers(0, 5), max_size=40))
def test_nothing_counts_as_applied_that_the_server_has_not(steps: list[int]) -> None:
    """Steps: commits, questions, answers in order, waits that return 0, restarts that lose all."""
    server = Server("s:1", Role.REPLICA)
    truth = _Truth()

    def executed() -> GtidSet:
        return gtids(f"{V}:1-{truth.executed}")

    def ask() -> int:
        before = server.applied
        started = (1000.0 * truth.incarnation, 1000.0 * truth.incarnation + 1)
        return server.observe(U, started, executed(), before)

    epochs = {0: ask()}
    for step in steps:
        if step <= 1:
            truth.executed += 1
        elif step == 2:
            epochs[truth.incarnation] = ask()
        elif step == 3 and truth.incarnation in epochs:
            server.add_proof(executed(), epochs[truth.incarnation])
        elif step == 4:
            truth.incarnation += 1
            truth.executed = 1
            epochs[truth.incarnation] = ask()
        else:
            # A proof by the incarnation before arrives late.
            server.add_proof(gtids(f"{V}:1-99"), epochs.get(truth.incarnation - 1, -1))
        assert server.applied <= executed()


# When it is asked.


def test_the_longer_a_replica_is_behind_the_longer_it_is_left_alone(server: Server) -> None:
    for since, pause in ((0.0, 0.1), (0.7, 0.1), (2.0, 0.25), (16.0, 2.0), (99.0, 4.0)):
        server.timed_out(50.0 + since, since)
        assert server.behind_since == 50.0
        assert server.behind_until - (50.0 + since) == pytest.approx(pause)


def test_what_is_missing_longest_counts(server: Server) -> None:
    server.timed_out(50.0, 8.0)
    server.timed_out(50.0, 1.0)
    assert server.behind_until == pytest.approx(51.0)


@pytest.mark.parametrize("proof", ["wait", "observed", "new epoch"])
def test_progress_ends_the_pause(server: Server, proof: str) -> None:
    server.timed_out(50.0)
    server.timed_out(66.0)
    assert not server.will_have(50.0, 66.0, 9.0)
    if proof == "wait":
        server.add_proof(gtids(f"{V}:6"), server.epoch)
    elif proof == "observed":
        server.observe(U, STARTED, gtids(f"{V}:1-6"), server.applied)
    else:
        server.observe(V, STARTED, EMPTY, EMPTY)
    assert (server.behind_since, server.behind_until) == (inf, 0)
    assert server.will_have(50.0, 66.0, 9.0)
    server.timed_out(70.0)
    assert server.behind_until == 70.1


def test_what_is_no_progress_does_not_end_the_pause(server: Server) -> None:
    server.timed_out(50.0)
    server.observe(U, STARTED, gtids(f"{V}:1-5"), server.applied)
    server.add_proof(gtids(f"{V}:1"), server.epoch - 1)
    assert server.behind_until == 50.1


def test_each_failure_to_connect_doubles_the_pause(server: Server) -> None:
    pauses = []
    for _ in range(7):
        server.set_unreachable(50.0)
        pauses.append(server.down_until - 50)
    assert pauses == [0.25, 0.5, 1.0, 2.0, 4.0, 4.0, 4.0]
    server.set_reachable()
    assert server.down_until == 0
    server.set_unreachable(50.0)
    assert server.down_until == 50.25


def test_one_attempt_at_a_time_after_a_failure(server: Server) -> None:
    server.begin_attempt(55.0)
    assert server.down_until == 0  # many may connect to a healthy server at once
    server.set_unreachable(50.0)
    server.begin_attempt(55.0)
    assert server.down_until == 55.0
    server.begin_attempt(52.0)
    assert server.down_until == 55.0


def test_a_replica_that_is_behind_is_waited_for_again_some_time(server: Server) -> None:
    """Else one that nobody else knows of never would be: brief WAITs for young writes are vain."""
    server.timed_out(50.0, 0.3)
    for now in range(51, 60):
        assert not server.will_have(now, now, 0.25)
        assert server.may_have(now, now) is (now >= 52)
        server.timed_out(now, 0.002, 0.002)
    assert server.will_have(60.0, 60.0, 0.25)


# How long a wait will probably take.


def test_what_is_left_of_a_delay_is_waited_for(server: Server) -> None:
    assert server.predicted_wait(99.0, 100.0) == 0  # nothing is known
    server.applied_after(0.5, 0.4, 100.0)
    assert server.predicted_wait(100.0, 100.0) == pytest.approx(0.5)
    assert server.predicted_wait(99.8, 100.0) == pytest.approx(0.3)
    assert server.predicted_wait(90.0, 100.0) == 0


def test_whether_a_wait_would_be_in_vain(server: Server) -> None:
    assert server.will_have(100.0, 100.0, 0.001)  # nothing is known
    server.applied_after(0.5, 0.4, 100.0)
    assert server.will_have(100.0, 100.0, 0.6)
    assert not server.will_have(100.0, 100.0, 0.4)
    assert server.will_have(99.8, 100.0, 0.4)
    assert not server.may_have(99.8, 100.0)
    assert server.may_have(99.7, 100.0)


def test_a_measured_lag_proves_nothing(server: Server) -> None:
    before = server.applied
    server.apply_delay.measured([0.0], 100.0)
    assert server.applied == before


@given(
    st.lists(
        st.tuples(st.booleans(), st.floats(0, 9), st.floats(0, 9), st.floats(0, 1)), max_size=20
    )
)
def test_a_prediction_is_never_beyond_what_was_measured(
    events: list[tuple[bool, float, float, float]],
) -> None:
    server = Server("s:1", Role.REPLICA)
    now, longest = 100.0, 0.0
    for well, delay, waited, pause in events:
        now += pause
        longest = max(longest, delay)
        if well:
            server.applied_after(delay, waited, now)
        else:
            server.timed_out(now, delay)
        assert 0 <= server.predicted_wait(now, now) <= longest + 1e-6


# Another primary.


def test_a_promotion_exchanges_the_two_and_keeps_the_others_places() -> None:
    topology = Topology("a:1", ["b:2", "c:3", "d:4"])
    a, b, c, d = topology.servers
    topology.observations.add(5.0, gtids(f"{U}:1"))
    topology.promote(c)
    assert topology.servers == [c, b, a, d]
    assert [server.role for server in (a, b, c, d)] == [
        Role.REPLICA,
        Role.REPLICA,
        Role.PRIMARY,
        Role.REPLICA,
    ]
    assert topology.observations.since(0.0) is None  # the old ones say nothing of the new primary


@given(st.lists(st.integers(0, 4), max_size=30))
def test_no_term_comes_twice(steps: list[int]) -> None:
    topology = Topology("a:1", ["b:2", "c:3"])
    terms = [topology.term]
    starts = 0.0
    for step in steps:
        if step < 2:
            topology.promote(topology.replicas[step])
        else:  # some server was started again
            starts += 10.0
            server = topology.servers[step - 2]
            server.observe(U, (starts, starts), EMPTY, EMPTY)
            if server is not topology.primary:
                assert topology.term == terms[-1]
                continue
        terms.append(topology.term)
    assert terms == sorted(set(terms))


# Distrust.


def test_a_server_that_is_distrusted_has_proved_nothing(server: Server) -> None:
    server.add_proof(gtids(f"{V}:6"), server.epoch)
    before = server.applied
    epoch = server.epoch
    server.add_confirmation(epoch, 7.0)
    server.distrust(epoch - 1)
    assert server.applied == before
    server.timed_out(1.0)
    server.distrust(epoch)
    assert server.applied == EMPTY
    assert server.epoch == epoch + 1
    assert server.confirmed_at == 0
    assert not server.behind_until
    # Answers over its open connections are about the incarnation before.
    server.add_proof(gtids(f"{V}:6"), epoch)
    server.add_confirmation(epoch, 8.0)
    assert server.applied == EMPTY
    assert server.confirmed_at == 0


def test_an_answer_of_the_time_before_a_new_incarnation_proves_nothing(server: Server) -> None:
    before, epoch = server.applied, server.epoch
    server.distrust(epoch)
    new = server.epoch
    assert server.observe(U, STARTED, gtids(f"{V}:1-9"), before, 0.0, epoch) == new
    assert server.applied == EMPTY
    # Nor does the answer of another process count: its connection is not used.
    assert server.observe(V, STARTED, gtids(f"{V}:1-9"), before, 0.0, epoch) == epoch
    assert server.applied == EMPTY
    assert server.uuid == U
    assert server.observe(U, STARTED, gtids(f"{V}:1-2"), server.applied, 0.0, new) == new
    assert server.applied == gtids(f"{V}:1-2")


def test_the_last_confirmation_counts(server: Server) -> None:
    server.add_confirmation(server.epoch, 5.0)
    server.add_confirmation(server.epoch, 4.0)
    assert server.confirmed_at == 5
    server.observe(V, STARTED, gtids(f"{V}:1-9"), EMPTY, sent_at=6.0)
    assert server.confirmed_at == 6


def test_what_a_confirmation_does_not_speak_of_does_not_join(server: Server) -> None:
    """Otherwise it would count for longer than its own age allows."""
    server.proof_max_age = 2.0
    server.asks(5.0)
    server.add_proof(gtids(f"{V}:6"), server.epoch, 4.9)
    server.observe(U, STARTED, gtids(f"{V}:1-7"), server.applied, 0.0, server.epoch, 4.9)
    assert server.applied == gtids(f"{V}:1-5")
    server.add_proof(gtids(f"{V}:6"), server.epoch, 5.0)
    server.observe(U, STARTED, gtids(f"{V}:1-7"), server.applied, 0.0, server.epoch, 5.1)
    assert server.applied == gtids(f"{V}:1-7")
    server.add_confirmation(server.epoch, 5.0)
    assert not server.is_doubtful(6.9)
    assert server.is_doubtful(7.0)


def test_a_yes_that_was_asked_for_before_a_no_came_is_older(server: Server) -> None:
    server.keeps_order(False, 1.0, 3.0)
    assert not server.ordered
    server.keeps_order(True, 2.0, 4.0)
    assert not server.ordered
    server.keeps_order(True, 3.0, 3.5)
    assert server.ordered
    server.keeps_order(False, 1.0, 9.0)  # this answer is late, but it may be true
    assert not server.ordered


# What replicas have, compared with the primary.


@pytest.fixture
def topology() -> Topology:
    found = Topology("a:1", ["b:2", "c:3"])
    found.primary.observe(U, STARTED, gtids(f"{U}:1-5"), EMPTY)
    return found


def held(replica: Server, had: str) -> Held:
    return Held(replica, replica.uuid, gtids(had), replica.epoch)


@pytest.mark.parametrize(
    ("had", "has", "errant", "diverged"),
    [
        (f"{U}:1-5", f"{U}:1-5", "", False),
        (f"{U}:1-4", f"{U}:1-5", "", False),
        (f"{U}:1-6", f"{U}:1-5", f"{U}:6", True),
        (f"{U}:1-6", f"{U}:1-6", "", False),  # it is committing the sixth
        (f"{U}:1-5,{V}:1", f"{U}:1-5", f"{V}:1", False),  # the primary gives no such GTIDs
        (f"{U}:1-5,{U}:tag:1", f"{U}:1-5", f"{U}:tag:1", True),
    ],
)
def test_what_the_primary_has_not(
    topology: Topology, had: str, has: str, errant: str, diverged: bool
) -> None:
    first, second = topology.replicas
    topology.compare([held(first, had), held(second, "")], gtids(has))
    assert first.errant == gtids(errant)
    assert first.has_diverged is diverged
    assert not second.has_diverged
    assert not second.errant


def test_a_name_that_is_given_again_acquits_nobody(topology: Topology) -> None:
    first, _ = topology.replicas
    topology.compare([held(first, f"{U}:1-6")], gtids(f"{U}:1-5"))
    topology.compare([held(first, f"{U}:1-6")], gtids(f"{U}:1-6"))
    assert not first.errant
    assert first.has_diverged


def test_who_had_strayed_before_the_start_has_while_it_has_any_of_that(topology: Topology) -> None:
    first, second = topology.replicas
    topology.remember_diverged({V: gtids(f"{U}:4-6"), W: gtids(f"{U}:5")})
    assert topology.diverged_gtids == {V: gtids(f"{U}:4-6"), W: gtids(f"{U}:5")}, "nobody was met"
    first.observe(V, STARTED, gtids(f"{U}:1-5"), EMPTY)  # it has lost the last one since
    assert first.diverged_gtids == gtids(f"{U}:4-5")
    assert not first.gtids_trustworthy
    assert not second.has_diverged
    assert topology.diverged_gtids == {V: gtids(f"{U}:4-5"), W: gtids(f"{U}:5")}
    second.observe(W, STARTED, gtids(f"{U}:1-4"), EMPTY)
    assert second.gtids_trustworthy, "it was made anew"
    assert topology.diverged_gtids == {V: gtids(f"{U}:4-5")}
    first.observe(W, STARTED, gtids(f"{U}:1-5"), EMPTY)
    assert topology.diverged_gtids == {}, "another server"


@pytest.mark.parametrize("distrusted", [False, True])
@pytest.mark.parametrize(
    ("left", "diverged_gtids", "lacking"),
    [
        (f"{U}:1-9", f"{U}:8-9", True),
        (f"{U}:1-8", f"{U}:8", True),  # a crash took the last
        (f"{U}:1-7", "", True),
        ("", "", False),  # RESET BINARY LOGS AND GTIDS
    ],
)
def test_what_a_replica_still_has_under_other_names_counts(
    topology: Topology, left: str, diverged_gtids: str, lacking: bool, distrusted: bool
) -> None:
    first, _ = topology.replicas
    had = gtids(f"{U}:1-9")
    first.observe(V, STARTED, had, EMPTY)
    topology.compare(topology.held_by_replicas(), gtids(f"{U}:1-7"))
    first.filters.applier = "REPLICATE_DO_DB = app"
    first.filters.judge(topology.primary.filters)
    first.filters.applier = ""  # the filter is removed
    assert first.has_diverged
    assert not first.gtids_trustworthy
    if distrusted:
        first.distrust(first.epoch)
        assert first.has_diverged, "nobody knows what is left"
    first.observe(V, STARTED, gtids(left), first.applied)
    first.filters.judge(topology.primary.filters)
    assert first.diverged_gtids == gtids(diverged_gtids)
    assert first.filters.lacking is lacking
    held = topology.held_by_replicas()
    topology.compare(held, gtids(f"{U}:1-20"))
    assert first.diverged_gtids == gtids(diverged_gtids)
    first.observe(W, STARTED, had, first.applied)
    first.filters.judge(topology.primary.filters)
    topology.compare(held, EMPTY)
    assert first.gtids_trustworthy, "another server"


@pytest.mark.parametrize("distrusted", [False, True])
@pytest.mark.parametrize(
    ("purged", "diverged_gtids"), [("", ""), (f"{U}:1-4", f"{U}:3-4"), (f"{U}:1-5", f"{U}:3-5")]
)
def test_who_was_reset_got_since_what_did_not_come_with_older_data(
    topology: Topology, distrusted: bool, purged: str, diverged_gtids: str
) -> None:
    """RESET BINARY LOGS AND GTIDS, and new transactions before anybody has looked."""
    first, _ = topology.replicas
    first.observe(V, STARTED, gtids(f"{U}:1-9"), EMPTY)
    topology.compare(topology.held_by_replicas(), gtids(f"{U}:1-2"))
    assert first.has_diverged
    if distrusted:
        first.distrust(first.epoch)
    first.observe(V, STARTED, gtids(f"{U}:1-5"), first.applied)
    assert first.regained == gtids(f"{U}:3-5")
    assert not first.gtids_trustworthy, "nobody knows yet how it got them"
    first.judge_regained(gtids(f"{U}:1-5"), gtids(purged))
    assert first.diverged_gtids == gtids(diverged_gtids)
    topology.compare(topology.held_by_replicas(), gtids(f"{U}:1-5"))
    assert first.diverged_gtids == gtids(diverged_gtids)
    topology.compare(topology.held_by_replicas(), gtids(f"{U}:1-4"))
    assert gtids(f"{U}:5") <= first.diverged_gtids, "the primary has lost that since"
    first.judge_regained(gtids(f"{U}:1-5"), EMPTY)
    assert gtids(f"{U}:5") <= first.diverged_gtids, "and it did not get that again"


@pytest.mark.parametrize(("number", "diverged"), [(7, True), (8, True), (1, False)])
def test_a_binary_log_that_begins_anew_tells_of_a_reset_that_nobody_saw(
    topology: Topology, number: int, diverged: bool
) -> None:
    first, _ = topology.replicas
    first.observe(V, STARTED, gtids(f"{U}:1-9"), EMPTY)
    answer = Held(first, V, EMPTY, first.epoch, binary_log=7)
    topology.compare(topology.held_by_replicas([answer]), gtids(f"{U}:1-2"))
    first.observe(V, STARTED, gtids(f"{U}:1-20"), first.applied)
    assert not first.regained, "it has all that it had"
    first.take_binary_log(number, first.divergences)
    first.judge_regained(gtids(f"{U}:1-20"), EMPTY)
    assert first.has_diverged is diverged
    first.observe(V, STARTED_AGAIN, gtids(f"{U}:1-20"), first.applied)
    assert first.binary_log == 0, "it may have got another one"


@pytest.mark.parametrize("more", [f"{U}:1-9", f"{U}:1-10"])
def test_a_binary_log_that_began_anew_before_a_loss_acquits_nobody(
    topology: Topology, more: str
) -> None:
    """It was reset, and given what the primary had then. Later the primary loses some of that."""
    first, _ = topology.replicas
    first.observe(V, STARTED, gtids(f"{U}:1-9"), EMPTY)
    first.take_binary_log(7, first.divergences)
    topology.compare(topology.held_by_replicas(), gtids(f"{U}:1-2"))
    first.take_binary_log(1, first.divergences)
    first.judge_regained(gtids(f"{U}:1-9"), EMPTY)
    assert first.has_diverged
    first.take_binary_log(7, first.divergences)
    answer = Held(first, V, gtids(more), first.epoch)
    topology.compare(topology.held_by_replicas([answer]), gtids(f"{U}:1-2"))
    first.take_binary_log(1, first.divergences)
    first.judge_regained(gtids(more), EMPTY)
    assert first.has_diverged is (more == f"{U}:1-10"), "only what was found before it was reset"


def test_the_same_lost_once_more_is_found_once_more(topology: Topology) -> None:
    """It was reset and got the names from the primary, which loses them again."""
    first, _ = topology.replicas
    first.observe(V, STARTED, gtids(f"{U}:1-9"), EMPTY)
    answer = Held(first, V, EMPTY, first.epoch, binary_log=7)
    topology.compare(topology.held_by_replicas([answer]), gtids(f"{U}:1-2"))
    answer = Held(first, V, gtids(f"{U}:1-9"), first.epoch, binary_log=1)
    topology.compare(topology.held_by_replicas([answer]), gtids(f"{U}:1-2"))
    first.take_binary_log(1, first.divergences)
    assert not first.regained


def test_a_binary_log_that_was_asked_for_before_a_loss_proves_nothing_of_it(
    topology: Topology,
) -> None:
    """Its answer comes late: the log has rotated, and the primary has lost more meanwhile."""
    first, _ = topology.replicas
    first.observe(V, STARTED, gtids(f"{U}:1-9"), EMPTY)
    answer = Held(first, V, EMPTY, first.epoch, binary_log=3)
    topology.compare(topology.held_by_replicas([answer]), gtids(f"{U}:1-5"))
    asked = first.divergences
    answer = Held(first, V, EMPTY, first.epoch, binary_log=4)
    topology.compare(topology.held_by_replicas([answer]), gtids(f"{U}:1-2"))
    first.take_binary_log(3, asked)
    assert not first.regained
    first.take_binary_log(3, first.divergences)
    assert first.regained == gtids(f"{U}:3-9")


@pytest.mark.parametrize("how", ["left", "distrusted"])
@pytest.mark.parametrize("early", [False, True])
def test_what_a_replica_may_have_still_counts_until_it_says_that_it_has_not(
    topology: Topology, how: str, early: bool
) -> None:
    """It is removed, or lacks something as it says; the primary is compared before it is asked."""
    first, _ = topology.replicas
    first.observe(V, STARTED, gtids(f"{U}:1-9"), EMPTY)
    held = topology.held_by_replicas()
    if how == "left":
        topology.remove_replica(first)
    else:
        first.distrust(first.epoch)
    topology.compare(held if early else topology.held_by_replicas(), gtids(f"{U}:1-2"))
    if how == "left":
        topology.add_replica(first)
    first.observe(V, STARTED, gtids(f"{U}:1-5"), first.applied)
    assert first.diverged_gtids == gtids(f"{U}:3-5")


def test_who_was_reset_once_more_is_asked_once_more(topology: Topology) -> None:
    first, _ = topology.replicas
    first.observe(V, STARTED, gtids(f"{U}:1-9"), EMPTY)
    topology.compare(topology.held_by_replicas(), gtids(f"{U}:1-2"))
    first.observe(V, STARTED, gtids(f"{U}:1-5"), first.applied)
    first.judge_regained(gtids(f"{U}:1-3"), EMPTY)
    assert first.diverged_gtids == gtids(f"{U}:3-5"), "it was reset between two answers"


def test_a_comparison_with_what_was_there_before_is_judged_by_what_is_left(
    topology: Topology,
) -> None:
    first, second = topology.replicas
    first.observe(V, STARTED, gtids(f"{U}:1-9"), EMPTY)
    second.observe(W, STARTED, gtids(f"{U}:1-9"), EMPTY)
    before = topology.held_by_replicas()
    first.observe(V, STARTED, gtids(f"{U}:1-3"), first.applied)
    second.observe(W, STARTED_AGAIN, gtids(f"{U}:1-7"), second.applied)
    topology.compare(before, gtids(f"{U}:1-2"))
    assert first.diverged_gtids == first.regained == gtids(f"{U}:3")
    first.judge_regained(gtids(f"{U}:1-3"), EMPTY)
    assert first.gtids_trustworthy
    assert second.diverged_gtids == gtids(f"{U}:3-7"), "a crash leaves what it has"
    assert not second.regained


@pytest.mark.parametrize("has", [f"{U}:1-3", f"{U}:1-5"])
def test_what_a_replica_said_before_it_was_reset_does_not_count_as_what_it_has_since(
    topology: Topology, has: str
) -> None:
    """It answers, is reset, and is seen by another connection; then the primary answers."""
    first, _ = topology.replicas
    first.observe(V, STARTED, gtids(f"{U}:1-9"), EMPTY)
    answer = Held(first, V, gtids(f"{U}:1-11"), first.epoch)
    first.observe(V, STARTED, gtids(f"{U}:1-3"), first.applied)
    held = topology.held_by_replicas([answer])
    first.observe(V, STARTED, gtids(f"{U}:1-4"), first.applied)
    topology.compare(held, gtids(has))
    first.judge_regained(gtids(f"{U}:1-4"), EMPTY)
    assert first.gtids_trustworthy
    assert not first.errant


def test_what_a_replica_is_committing_counts_as_what_it_has(topology: Topology) -> None:
    first, second = topology.replicas
    first.observe(V, STARTED, gtids(f"{U}:1-3"), EMPTY)
    second.observe(W, STARTED, gtids(f"{U}:1-3"), EMPTY)
    answer = Held(first, V, gtids(f"{U}:1-4"), first.epoch)
    topology.compare(topology.held_by_replicas([answer]), gtids(f"{U}:1-3"))
    assert first.diverged_gtids == gtids(f"{U}:4")
    assert second.gtids_trustworthy


@pytest.mark.parametrize("how", ["restarted", "distrusted"])
def test_an_earlier_reset_acquits_nobody_of_what_it_has_kept_since(
    topology: Topology, how: str
) -> None:
    """A replica was reset once. Later it begins anew, and has all that the primary has lost."""
    first, _ = topology.replicas
    first.observe(V, STARTED, gtids(f"{U}:1-9"), EMPTY)
    first.observe(V, STARTED, gtids(f"{U}:1-5"), first.applied)
    topology.compare(topology.held_by_replicas(), gtids(f"{U}:1-5"))
    assert first.gtids_trustworthy
    before = topology.held_by_replicas()
    started = STARTED_AGAIN if how == "restarted" else STARTED
    if how == "distrusted":
        first.distrust(first.epoch)
    first.observe(V, started, gtids(f"{U}:1-5"), first.applied)
    topology.compare(before, gtids(f"{U}:1-3"))
    first.judge_regained(gtids(f"{U}:1-5"), EMPTY)
    assert first.diverged_gtids == gtids(f"{U}:4-5")


@pytest.mark.parametrize("rebuilt", [False, True])
def test_who_followed_a_primary_that_lost_transactions_differs_from_one_that_has_them(
    topology: Topology, rebuilt: bool
) -> None:
    """But not if the one that has them was made anew before it became the primary."""
    first, second = topology.replicas
    had = gtids(f"{U}:1-9")
    first.observe(V, STARTED, had, EMPTY)
    second.observe(W, STARTED, gtids(f"{U}:1-7"), EMPTY)
    topology.compare(topology.held_by_replicas(), gtids(f"{U}:1-7"))
    assert (first.has_diverged, second.has_diverged) == (True, False)
    topology.promote(first)
    first.observe("another" if rebuilt else V, STARTED, had, had)
    topology.compare(topology.held_by_replicas(), had)
    assert [server.has_diverged for server in topology.servers] == [False] + [not rebuilt] * 2


def test_only_a_start_since_the_last_question_has_broken_connections(server: Server) -> None:
    server.observe(U, STARTED, gtids(f"{V}:1-5"), EMPTY, 500.0)
    before = server.started_epoch
    server.observe(U, (160.0, 161.0), gtids(f"{V}:1-5"), EMPTY, 501.0)  # a clock was set
    assert server.epoch > before
    assert server.started_epoch == before
    server.observe(U, (502.0, 503.0), gtids(f"{V}:1-5"), EMPTY, 504.0)
    assert server.started_epoch == server.epoch


def test_a_server_is_silent_until_it_sends_something_or_its_time_is_over() -> None:
    server = Server("p", Role.PRIMARY)
    assert not server.is_silent(0.0)
    server.add_silence(60.0)
    assert server.is_silent(59.0)
    assert not server.is_silent(60.0)
    server.packets_received += 1
    assert not server.is_silent(59.0)
    server.add_silence(60.0)
    assert server.is_silent(59.0)
    server.set_reachable()
    assert not server.is_silent(59.0)


# Servers that come and go.


def test_a_server_that_comes_stands_by_until_it_is_added() -> None:
    topology = Topology("a:1", ["b:2"], proof_max_age=7.0)
    before = topology.replicas
    new = topology.meet("c:3")
    assert topology.standby == [new]
    assert topology.replicas is before
    assert new.proof_max_age == 7.0
    assert [held.replica.name for held in topology.held_by_replicas()] == ["b:2", "c:3"]
    topology.add_replica(new)
    assert [server.name for server in topology.replicas] == ["b:2", "c:3"]
    assert [server.name for server in before] == ["b:2"]  # as somebody may still walk over it
    assert topology.standby == []


def test_nothing_that_was_decided_for_a_replica_stands_when_it_has_left() -> None:
    topology = Topology("a:1", ["b:2", "c:3"])
    server = topology.replicas[0]
    server.observe(U, STARTED, gtids(f"{V}:1-5"), EMPTY)
    epoch = server.epoch
    assert topology.stands(server, epoch, topology.term, 1.0, True)
    assert topology.remove_replica(server) == 0
    assert not topology.stands(server, epoch, topology.term, 1.0, True)
    server.set_reachable()
    assert not topology.stands(server, epoch, topology.term, 1.0, True)
    assert not server.add_proof(gtids(f"{V}:6"), epoch)
    assert server.applied == EMPTY
    topology.add_replica(server)
    assert not topology.stands(server, epoch, topology.term, 1.0, True)


def test_what_a_replica_lost_while_it_stood_by_is_noticed() -> None:
    topology = Topology("a:1", ["b:2"])
    (server,) = topology.replicas
    server.observe(U, STARTED, gtids(f"{V}:1-5"), EMPTY)
    topology.remove_replica(server)
    server.observe(U, STARTED, gtids(f"{V}:1-3"), EMPTY)
    assert server.lost_running


def test_that_a_server_has_diverged_outlives_its_going() -> None:
    topology = Topology("a:1", ["b:2"])
    (server,) = topology.replicas
    server.observe(U, STARTED, gtids(f"{V}:1-5"), EMPTY)
    server.diverged_gtids = gtids(f"{V}:5")
    topology.remove_replica(server)
    topology.forget(server)
    assert topology.watched == [topology.primary]
    assert topology.diverged_gtids == {U: gtids(f"{V}:5")}
    again = topology.meet("b:2")
    again.observe(U, STARTED, gtids(f"{V}:1-5"), EMPTY)
    assert again.has_diverged


# A group.


def test_in_a_group_any_member_may_be_the_first_to_commit() -> None:
    topology = Topology("a:1", ["b:2"])
    (replica,) = topology.replicas
    topology.primary.observe(U, STARTED, gtids(f"{W}:1-5"), EMPTY)
    replica.observe(V, STARTED, gtids(f"{W}:1-6,{V}:1"), EMPTY)
    held = topology.held_by_replicas()
    owned = gtids(f"{W}:8")
    assert topology.committed(owned) == owned
    topology.compare(held, gtids(f"{W}:1-5"))
    assert replica.errant == gtids(f"{W}:6,{V}:1")
    topology.group = W
    assert topology.committed(owned) == gtids(f"{W}:1-6:8,{V}:1")
    topology.compare(held, gtids(f"{W}:1-5"))
    assert replica.errant == gtids(f"{V}:1")
    assert topology.source_uuid == W
