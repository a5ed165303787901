"""The course of a read in many situations, each as a transcript (`transcript`)."""

from dataclasses import replace

import pytest

from protocol.gtid import EMPTY
from routing.consistency.decision import Level, LostPolicy, Scope, TimeoutPolicy
from routing.consistency.rules import REMEMBERING
from routing.request.command_progress import CommandProgress
from routing.request.read import Read
from routing.request.stage import TABLE
from routing.request.step import Join, Refuse
from routing.unexpected_event import UnexpectedEventError
from tests.routing.request.transcript import OF_ANY_COMMAND, World, gtids

SNAPSHOT_AFTER = World(applied=("1-4",))
"""The only replica lacks what the read must see."""
STRONG = World(level=Level.STRONG)
MONOTONIC = World(applied=("1-5", "1-5"), level=Level.MONOTONIC_READS)


# Known


def test_a_replica_is_known_to_have_it() -> None:
    play = World().play("""
        >> begin()
        << Send(r1, read, known)
        >> first_byte()
        >> ended()
    """)
    assert play.read.required == gtids("1-5")


def test_one_read_after_the_other() -> None:
    World().play("""
        >> begin()
        << Send(r1, read, known)
        >> ended()
        >> begin()
        << Send(r1, read, known)
        >> first_byte()
        >> ended()
    """)


def test_what_is_no_read_goes_where_the_policy_says() -> None:
    play = SNAPSHOT_AFTER.play("""
        >> begin(write)
        << Send(p, write, primary)
        >> first_byte()
        >> ended()
    """)
    assert play.read.required == EMPTY


def test_what_names_no_application_is_refused() -> None:
    world = World(scope=Scope.APPLICATION)
    play = world.play("")
    play.session.rules = World().play("").session.rules
    rules = play.session.rules
    play.session.rules = type(rules)(rules.level, Scope.APPLICATION, 0.25, rules.on_timeout)
    assert list(play.lines([">> begin()"])) == [">> begin()", "<< Refuse(1231, proxy)"]


# WAIT


def test_the_wait_reaches_it() -> None:
    play = SNAPSHOT_AFTER.play("""
        >> begin()
        << Send(r1, read, waited)
        -- after(0.1)
        >> wait_answered(reached)
        << Pass
        >> first_byte()
        >> ended()
        >> begin()
        << Send(r1, read, known)
    """)
    assert play.topology.replicas[0].applied == gtids("1-5")


@pytest.mark.parametrize(
    ("policy", "answer"),
    [
        (TimeoutPolicy.PRIMARY, "Send(p, wait_timeout, primary); left r1: wait_timeout"),
        (TimeoutPolicy.ERROR, "Refuse(3024, wait_timeout); left r1: wait_timeout"),
        (TimeoutPolicy.STALE, "Pass; stale"),
    ],
)
def test_the_wait_runs_out(policy: TimeoutPolicy, answer: str) -> None:
    play = World(applied=("1-4",), on_timeout=policy).play(f"""
        >> begin()
        << Send(r1, read, waited)
        -- after(0.25)
        >> wait_answered(timeout)
        << {answer}
        >> ended()
    """)
    assert play.topology.replicas[0].behind_until > play.now


@pytest.mark.parametrize(("seconds", "result"), [(0.001, "reached"), (0.003, "timeout")])
def test_it_waits_briefly_for_a_late_replica(seconds: float, result: str) -> None:
    if result == "reached":
        answer = "Pass"
    else:
        answer = "Send(p, replica_behind, primary); left r1: replica_behind"
    play = World(applied=("1-4",), own="1-5").play(f"""
        -- behind(r1, 1)
        -- after(4)
        >> begin()
        << Send(r1, read, waited)
        -- after({seconds})
        >> wait_answered({result})
        << {answer}
        >> ended()
    """)
    is_behind = play.topology.replicas[0].behind_since < play.now
    assert is_behind is (result == "timeout")


def test_it_waits_in_full_where_the_primary_could_not_be_given_the_read() -> None:
    play = World(applied=("1-4",)).play("""
        -- behind(r1, 1)
        -- after(4)
        -- full(0.1)
        >> begin()
        << Send(r1, read, waited); crowded: waits
    """)
    assert play.read.wait_limit == 0.25


def test_it_waits_briefly_in_vain_and_the_primary_does_not_answer() -> None:
    World(applied=("1-4",)).play("""
        -- behind(r1, 1)
        -- after(4)
        >> begin()
        << Send(r1, read, waited)
        -- silent(p)
        -- after(0.003)
        >> wait_answered(timeout)
        << Refuse(3024, probe_failed); left r1: replica_behind
    """)


def test_to_wait_briefly_it_joins_no_wait() -> None:
    World(applied=("1-4",)).play("""
        -- behind(r1, 1)
        -- after(4)
        -- wait(r1, 1-5)
        -- after(0.01)
        >> begin()
        << Send(r1, read, waited)
    """)


def test_what_is_given_as_stale_is_not_audited() -> None:
    World(applied=("1-4",), on_timeout=TimeoutPolicy.STALE).play("""
        >> begin()
        << Send(r1, read, waited)
        >> wait_answered(timeout)
        << Pass; stale
        >> audit_answered(no)
        << Pass
    """)


def test_the_wait_fails() -> None:
    play = SNAPSHOT_AFTER.play("""
        >> begin()
        << Send(r1, read, waited)
        >> wait_answered(failed)
        << Send(p, replica_refused, primary); left r1: replica_refused
        >> first_byte()
        >> ended()
    """)
    assert play.topology.replicas[0].applied == gtids("1-4")


def test_what_a_wait_met_is_no_prediction_where_nothing_was_acknowledged() -> None:
    """A restored scope knows what it must see, but not since when."""
    play = SNAPSHOT_AFTER.play("")
    play.session.own_scope.changed_at = 0.0
    list(play.lines([">> begin()", "-- after(0.1)", ">> wait_answered(reached)"]))
    assert play.topology.replicas[0].predicted_wait(play.now, play.now) < 1.0


def test_the_answer_to_a_wait_reached_may_not_come() -> None:
    SNAPSHOT_AFTER.play("""
        >> begin()
        << Send(r1, read, waited)
        >> wait_answered(reached)
        << Pass
        >> lost()
        << Send(p, replica_lost, primary); left r1: replica_lost; proved 1-5
    """)


def test_the_replica_does_not_even_say_that_it_is_late() -> None:
    play = SNAPSHOT_AFTER.play("""
        >> begin()
        << Send(r1, read, waited)
        -- after(5)
        >> silent()
        << Send(p, replica_lost, primary); left r1: replica_lost
    """)
    assert play.topology.replicas[0].down_until > play.now


def test_reads_that_need_not_try_to_wait_find_replicas_late() -> None:
    play = World(applied=("1-4",)).play("""
        -- behind(r1)
        >> begin()
        << Send(p, replica_behind, primary)
        >> ended()
    """)
    lateness = play.topology.replicas[0].lateness
    assert lateness.at < play.now
    list(play.lines(["-- after(1.0)", "-- behind(r1)", ">> begin()"]))
    assert lateness.at == play.now


# Replicas that are too far behind to be read


@pytest.mark.parametrize("level", [Level.BEST_EFFORT, Level.READ_OWN_WRITES])
def test_all_replicas_are_too_far_behind(level: Level) -> None:
    World(level=level).play("""
        -- lags(r1)
        >> begin()
        << Send(p, replica_lagging, primary)
        >> first_byte()
        >> ended()
        -- keeps_up(r1)
    """)


@pytest.mark.parametrize("level", [Level.BEST_EFFORT, Level.READ_OWN_WRITES])
def test_they_are_read_nevertheless_if_that_is_configured(level: Level) -> None:
    proof = "none" if level is Level.BEST_EFFORT else "known"
    World(("1-5", "1-5"), level=level, reads_lagging=True).play(f"""
        -- lags(r1)
        >> begin()
        << Send(r2, read, {proof})
        >> ended()
        -- lags(r2)
        >> begin()
        << Send(r1, read, {proof})
        -- keeps_up(r1)
    """)


@pytest.mark.parametrize("level", [Level.BEST_EFFORT, Level.READ_OWN_WRITES])
def test_the_primary_is_given_such_reads_in_their_turn(level: Level) -> None:
    World(level=level).play("""
        -- lags(r1)
        -- full(0.1)
        >> begin()
        << Delay(0.1); crowded: delayed
        -- after(0.1)
        >> turn_came()
        << Send(p, replica_lagging, primary)
        >> ended()
        -- full(0.3)
        >> begin()
        << Refuse(3024, flood); crowded: refused
        >> ended()
    """)


@pytest.mark.parametrize("level", [Level.BEST_EFFORT, Level.READ_OWN_WRITES])
def test_a_primary_that_does_not_answer_is_not_waited_for(level: Level) -> None:
    World(level=level).play("""
        -- lags(r1)
        -- silent(p)
        >> begin()
        << Refuse(3024, probe_failed)
        >> ended()
        -- speaks(p)
        >> begin()
        << Send(p, replica_lagging, primary)
    """)


def test_a_stale_answer_is_none_of_a_replica_that_has_fallen_too_far_behind() -> None:
    world = replace(SNAPSHOT_AFTER, on_timeout=TimeoutPolicy.STALE)
    world.play("""
        >> begin()
        << Send(r1, read, waited)
        -- lags(r1)
        >> wait_answered(timeout)
        << Send(p, wait_timeout, primary); left r1: wait_timeout
    """)
    replace(world, reads_lagging=True).play("""
        >> begin()
        << Send(r1, read, waited)
        -- lags(r1)
        >> wait_answered(timeout)
        << Pass; stale
    """)


def test_a_stale_answer_without_a_primary_is_none_of_such_a_replica() -> None:
    world = replace(STRONG, on_timeout=TimeoutPolicy.STALE, applied=("1-5", "1-5"))
    world.play("""
        >> begin()
        << Ask
        -- lags(r1)
        >> primary_silent()
        << Send(r2, wait_timeout, none); stale
        >> ended()
        >> begin()
        << Ask
        -- lags(r2)
        >> primary_silent()
        << Refuse(3024, probe_failed)
    """)


def test_a_snapshot_that_is_open_there_goes_on() -> None:
    World().play("""
        -- snapshot(r1)
        -- lags(r1)
        >> begin()
        << Send(r1, transaction, known)
    """)


def test_a_scope_leaves_the_replica_that_it_has_read_from() -> None:
    World(("1-5", "1-5"), level=Level.MONOTONIC_READS).play("""
        >> begin()
        << Send(r1, read, known)
        >> first_byte()
        >> ended()
        -- showed(r1)
        -- lags(r1)
        >> begin()
        << Ask
        >> probe_answered(1-5)
        << Send(r2, read, known)
    """)


# Too many reads leave late replicas


def test_the_primary_is_given_it_in_a_while() -> None:
    SNAPSHOT_AFTER.play("""
        -- full(0.1)
        >> begin()
        << Send(r1, read, waited)
        >> wait_answered(timeout)
        << Delay(0.1); left r1: wait_timeout; crowded: delayed
        -- after(0.1)
        >> turn_came()
        << Send(p, wait_timeout, primary)
        >> first_byte()
        >> ended()
    """)


def test_the_primary_is_not_to_be_given_it() -> None:
    play = SNAPSHOT_AFTER.play("""
        -- full(0.3)
        >> begin()
        << Send(r1, read, waited)
        >> wait_answered(timeout)
        << Refuse(3024, flood); left r1: wait_timeout; crowded: refused
        >> ended()
    """)
    (_, refused) = play.steps
    assert isinstance(refused, Refuse)
    assert refused.message == (
        "Tidegate: replicas are behind, and more reads than the primary is to be given"
        " (primary-fallback-rate) want to go there; try again, or raise it"
    )


def test_what_would_leave_a_late_replica_at_once_may() -> None:
    SNAPSHOT_AFTER.play("""
        -- behind(r1)
        >> begin()
        << Send(p, replica_behind, primary)
    """)


def test_what_would_leave_a_late_replica_at_once_waits_in_a_flood() -> None:
    SNAPSHOT_AFTER.play("""
        -- full()
        -- behind(r1)
        >> begin()
        << Send(r1, read, waited); crowded: waits
    """)


# The primary is asked


def test_strong_reads_ask_the_primary() -> None:
    play = STRONG.play("""
        >> begin()
        << Ask
        >> probe_answered(1-5)
        << Send(r1, read, known)
        >> ended()
        >> begin()
        << Ask
        >> probe_answered(1-6)
        << Send(r1, read, waited)
    """)
    assert play.read.required == gtids("1-6")


def test_a_strong_read_sees_what_the_primary_shows_before_it_has_the_gtid() -> None:
    """Rows are visible there a moment before their transaction joins gtid_executed."""
    play = STRONG.play("""
        >> begin()
        << Ask
        >> probe_answered(1-5, 6)
        << Send(r1, read, waited)
    """)
    assert play.read.required == gtids("1-6")


def test_what_was_seen_elsewhere_bounds_what_a_read_must_see() -> None:
    """The replica that showed something is gone, so what the primary is committing counts, too."""
    MONOTONIC.play("""
        -- showed(r1)
        >> begin()
        << Send(r1, read, known)
        >> ended()
        -- down(r1)
        >> begin()
        << Ask
        >> probe_answered(1-5, 6)
        << Send(r2, read, waited)
    """)


def test_the_primary_does_not_say_what_it_has() -> None:
    STRONG.play("""
        >> begin()
        << Ask
        >> probe_answered(nothing)
        << Send(p, probe_failed, primary)
    """)


@pytest.mark.parametrize(
    ("policy", "answer"),
    [
        (TimeoutPolicy.PRIMARY, "Refuse(3024, probe_failed)"),
        (TimeoutPolicy.ERROR, "Refuse(3024, probe_failed)"),
        (TimeoutPolicy.STALE, "Send(r1, wait_timeout, none); stale"),
    ],
)
@pytest.mark.parametrize("level", [Level.STRONG, Level.BOUNDED_STALENESS])
def test_the_primary_does_not_answer(level: Level, policy: TimeoutPolicy, answer: str) -> None:
    """The read is not sent where nobody answers."""
    play = World(level=level, on_timeout=policy).play(f"""
        >> begin()
        << Ask
        -- after(0.25)
        >> primary_silent()
        << {answer}
        >> ended()
        >> begin()
        << Ask
    """)
    refused = [step for step in play.steps if isinstance(step, Refuse)]
    assert all("primary p " in step.message and "250 ms" in step.message for step in refused)


@pytest.mark.parametrize(
    ("policy", "answer"),
    [
        (TimeoutPolicy.PRIMARY, "Refuse(3024, probe_failed)"),
        (TimeoutPolicy.ERROR, "Refuse(3024, probe_failed)"),
        (TimeoutPolicy.STALE, "Send(r1, wait_timeout, none); stale"),
    ],
)
def test_a_primary_that_is_known_to_be_silent_is_not_asked(
    policy: TimeoutPolicy, answer: str
) -> None:
    World(level=Level.STRONG, on_timeout=policy).play(f"""
        -- silent(p)
        >> begin()
        << {answer}
        >> ended()
        -- speaks(p)
        >> begin()
        << Ask
        >> probe_answered(1-5)
        << Send(r1, read, known)
        >> ended()
        -- silent(p)
        -- after(1)
        >> begin()
        << Ask
    """)


def test_what_only_a_silent_primary_has_is_refused() -> None:
    World().play("""
        -- silent(p)
        >> ask()
        << Refuse(3024, probe_failed)
        >> ended()
        -- speaks(p)
        >> ask()
        << Ask
        >> primary_silent()
        << Refuse(3024, probe_failed)
    """)


@pytest.mark.parametrize("level", REMEMBERING)
@pytest.mark.parametrize("last", ["p", "r1"])
def test_the_last_look_at_a_silent_primary_bounds_what_was_seen(level: Level, last: str) -> None:
    """What the primary had and was committing, if nothing was shown since it was asked that."""
    World(level=level).play(f"""
        -- showed(r1)
        -- showed(p)
        -- showed({last})
        -- looks()
        -- looked(1-4)
        -- silent(p)
        >> begin()
        << Send(r1, read, known); looked 1-4
        >> ended()
        -- showed(r1)
        >> begin()
        << Send(r1, read, known)
        >> ended()
        -- showed(p)
        >> begin()
        << Refuse(3024, probe_failed)
    """)


@pytest.mark.parametrize("level", REMEMBERING)
@pytest.mark.parametrize(
    "shown",
    [
        "-- looks()\n-- showed(p)\n-- looked(1-4)",
        "-- looks()\n-- looked(1-4)\n-- showed(p)",
        "-- looks()\n-- looked(1-4)\n-- showed(r1)\n-- showed(p)",
        "-- showed_elsewhere()\n-- showed(p)\n-- looks()\n-- looked(1-4)",
        "-- showed(p)\n-- looks()",
        "-- showed(p)\n-- looks()\n-- looked(1-4)\n-- promote(r1)\n-- silent(r1)",
        "-- showed(p)\n-- looks()\n-- looked(1-4)\n-- unknown()",
    ],
)
def test_what_a_silent_primary_may_have_shown_since_is_not_bounded(
    level: Level, shown: str
) -> None:
    play = World(level=level).play("")
    *_, step = play.lines([*shown.splitlines(), "-- silent(p)", ">> begin()"])
    assert step.startswith("<< Refuse(") or step == "<< Send(p, unknown_required, primary)"


def test_what_a_silent_primary_was_committing_must_be_there() -> None:
    """A replica that lacks some of what the primary had is waited for."""
    World(level=Level.MONOTONIC_READS).play("""
        -- showed(p)
        -- looks()
        -- looked(1-7)
        -- silent(p)
        >> begin()
        << Send(r1, read, waited); looked 1-7
        >> wait_answered(timeout)
        << Refuse(3024, probe_failed); left r1: wait_timeout
    """)


def test_a_stale_answer_needs_a_replica_that_can_be_reached() -> None:
    World(level=Level.STRONG, on_timeout=TimeoutPolicy.STALE).play("""
        >> begin()
        << Ask
        -- down(r1)
        >> primary_silent()
        << Refuse(3024, probe_failed)
    """)


def test_a_stale_answer_over_a_new_connection_asks_the_primary_no_more() -> None:
    World(level=Level.STRONG, on_timeout=TimeoutPolicy.STALE).play("""
        >> begin()
        << Ask
        -- after(0.25)
        >> primary_silent()
        << Send(r1, wait_timeout, none); stale
        >> absent()
        << Open(r1)
        >> opened()
        << Send(r1, wait_timeout, none)
    """)


def test_what_the_question_took_is_taken_from_the_budget() -> None:
    play = World(level=Level.STRONG).play("""
        >> begin()
        << Ask
        -- after(0.001)
        >> probe_answered(1-6)
        << Send(r1, read, waited)
    """)
    assert play.read.budget == 0.25
    list(play.lines([">> ended()", ">> begin()", "-- after(0.2)", ">> probe_answered(1-6)"]))
    assert play.read.budget == pytest.approx(0.05)


def test_a_late_replica_is_waited_for_where_the_primary_is_silent() -> None:
    """Nothing is gained by going where nobody answers."""
    SNAPSHOT_AFTER.play("""
        -- behind(r1)
        >> begin()
        << Send(p, replica_behind, primary)
        >> ended()
        -- silent(p)
        >> begin()
        << Send(r1, read, waited)
        >> wait_answered(timeout)
        << Refuse(3024, probe_failed); left r1: wait_timeout
    """)


@pytest.mark.parametrize(
    ("policy", "answer"),
    [
        (LostPolicy.ERROR, "Refuse(1105, probe_failed)"),
        (LostPolicy.CONTINUE, "Send(r2, probe_failed, primary)"),
    ],
)
def test_a_new_primary_may_lack_what_was_written(policy: LostPolicy, answer: str) -> None:
    """If the read went there, nobody would be told of the loss."""
    World(applied=("1-5", "1-5"), on_lost_writes=policy).play(f"""
        -- promote(r2)
        >> begin()
        << Ask
        >> probe_answered(nothing)
        << {answer}
    """)


def test_another_primary_is_asked_anew() -> None:
    World(applied=("1-5", "1-5"), level=Level.STRONG).play("""
        >> begin()
        << Ask
        -- promote(r2)
        >> probe_answered(1-5)
        << Ask
        >> probe_answered(1-5)
        << Send(r1, read, known)
    """)


@pytest.mark.parametrize(
    ("policy", "answer"),
    [
        (LostPolicy.ERROR, "Refuse(1105, lost_writes); lost 4-5"),
        (LostPolicy.CONTINUE, "Send(r1, read, known); lost 4-5"),
    ],
)
def test_what_was_written_is_lost(policy: LostPolicy, answer: str) -> None:
    World(applied=("1-3", "1-3"), on_lost_writes=policy).play(f"""
        -- promote(r2)
        >> begin()
        << Ask
        >> probe_answered(1-3)
        << {answer}
        >> ended()
        >> begin()
        << Send(r1, read, known)
    """)


def test_what_the_primary_has_is_wanted_for_itself() -> None:
    play = World().play("""
        >> ask()
        << Ask
        >> probe_answered(1-7)
        << Known
    """)
    assert play.read.probe_result == gtids("1-7")


def test_nobody_else_can_say_what_the_primary_has() -> None:
    World().play("""
        >> ask()
        << Ask
        >> probe_answered(nothing)
        << Refuse(1105, probe_failed)
    """)


# Another read's WAIT


def test_it_relies_on_another_reads_wait() -> None:
    play = SNAPSHOT_AFTER.play("""
        -- wait(r1, 1-5)
        -- after(0.01)
        >> begin()
        << Join(0.25)
        -- after(0.1)
        -- applied(r1, 1-5)
        >> released()
        << Send(r1, read, known)
    """)
    (joined, _) = play.steps
    assert isinstance(joined, Join)
    assert joined.wait.gtids == gtids("1-5")


def test_a_wait_that_has_just_begun_is_not_relied_on() -> None:
    SNAPSHOT_AFTER.play("""
        -- wait(r1, 1-5)
        >> begin()
        << Send(r1, read, waited)
    """)


def test_another_reads_wait_ends_in_vain() -> None:
    play = SNAPSHOT_AFTER.play("""
        -- wait(r1, 1-5)
        -- after(0.01)
        >> begin()
        << Join(0.25)
        -- after(0.1)
        >> released()
        << Join(0.15)
        -- after(0.1)
        >> released()
        << Join(0.05)
    """)
    assert play.read.budget == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("policy", "answer"),
    [
        (TimeoutPolicy.PRIMARY, "Send(p, wait_timeout, primary); left r1: wait_timeout"),
        (TimeoutPolicy.ERROR, "Refuse(3024, wait_timeout); left r1: wait_timeout"),
        (TimeoutPolicy.STALE, "Send(r1, wait_timeout, none); stale"),
    ],
)
def test_another_reads_wait_takes_too_long(policy: TimeoutPolicy, answer: str) -> None:
    World(applied=("1-4",), on_timeout=policy).play(f"""
        -- wait(r1, 1-5)
        -- after(0.01)
        >> begin()
        << Join(0.25)
        -- after(0.25)
        >> out_of_time()
        << {answer}
        >> ended()
    """)


def test_a_kill_meets_its_wait() -> None:
    World(applied=("1-4",)).play("""
        >> begin()
        << Send(r1, read, waited)
        >> wait_answered(interrupted)
        << Refuse(1317, replica_refused)
        >> ended()
    """)


# Its connection


def test_a_connection_is_opened() -> None:
    World().play("""
        >> begin()
        << Send(r1, read, known)
        >> absent()
        << Open(r1)
        >> opened()
        << Send(r1, read, known)
    """)


def test_a_connection_cannot_be_opened() -> None:
    World(applied=("1-5", "1-5")).play("""
        >> begin()
        << Send(r1, read, known)
        >> absent()
        << Open(r1)
        -- down(r1)
        >> opened(replica_lost)
        << Send(r2, read, known); left r1: replica_lost
        >> absent()
        << Open(r2)
        -- down(r2)
        >> opened(replica_lost)
        << Send(p, no_replica, primary); left r2: replica_lost
    """)


def test_a_connection_still_drains_what_came_too_late() -> None:
    World().play("""
        >> begin()
        << Send(r1, read, known)
        >> unfit(replica_behind)
        << Send(p, replica_behind, primary)
    """)


def test_what_asks_about_the_statement_before_follows_it() -> None:
    World().play("""
        -- asks_previous(r1)
        >> begin(diagnostic)
        << Send(r1, diagnostic, none)
        >> ended()
        >> begin(diagnostic)
        << Send(r1, diagnostic, none)
        >> absent()
        << Send(p, diagnostic, primary)
    """)


def test_a_transactions_snapshot_is_nowhere_else() -> None:
    play = World().play("""
        -- snapshot(r1)
        >> begin()
        << Send(r1, transaction, known)
        >> ended()
        >> begin()
        << Send(r1, transaction, known)
        >> lost()
        << End(it broke)
        >> ended()
        >> begin()
        << Send(r1, transaction, known)
        >> absent()
        << End(a READ ONLY transaction ran there)
    """)
    assert play.read.bound


@pytest.mark.parametrize("level", Level)
def test_later_reads_of_a_snapshot_ask_for_nothing(level: Level) -> None:
    proof = "none" if level is Level.BEST_EFFORT else "known"
    play = World(level=level).play(f"""
        -- snapshot(r1)
        -- unknown()
        -- behind(r1)
        >> begin()
        << Send(r1, transaction, {proof})
        >> ended()
    """)
    # It must see what the first read had to see.
    assert play.read.required == (EMPTY if level is Level.BEST_EFFORT else gtids("1-3"))


@pytest.mark.parametrize("level", Level)
def test_of_a_snapshot_that_is_stale_later_reads_are_counted_so(level: Level) -> None:
    counted = "" if level is Level.BEST_EFFORT else "; stale"
    World(level=level).play(f"""
        -- snapshot(r1, stale)
        >> begin()
        << Send(r1, transaction, none){counted}
    """)


def test_a_cursor_is_nowhere_else() -> None:
    World().play("""
        >> bind(cursor)
        >> first_byte()
        >> ended()
        >> bind(cursor)
        >> lost()
        << End(it broke)
    """)


# What a replica says of itself


def test_a_replica_still_has_what_it_had() -> None:
    World(age=10.0).play("""
        -- after(10)
        >> begin()
        << Send(r1, read, known, confirm)
        -- asked()
        >> confirm_answered(yes, yes)
        << Pass
        >> ended()
        >> begin()
        << Send(r1, read, known)
    """)


@pytest.mark.parametrize("answer", ["no, -", "-, -"])
def test_a_replica_does_not_have_any_more_what_it_had(answer: str) -> None:
    play = World(age=10.0).play(f"""
        -- after(10)
        >> begin()
        << Send(r1, read, known, confirm)
        -- asked()
        >> confirm_answered({answer})
        << Send(p, audit_failed, primary); left r1: audit_failed
    """)
    assert bool(play.topology.replicas[0].applied) == (answer == "-, -")


def test_a_wait_finds_out_as_well() -> None:
    World(applied=("1-4",), age=10.0).play("""
        -- after(10)
        >> begin()
        << Send(r1, read, waited, confirm)
        -- asked()
        >> wait_answered(reached, no, -)
        << Send(p, audit_failed, primary); left r1: audit_failed; proved 1-5
    """)


def test_a_wait_that_runs_out_finds_out_as_well() -> None:
    play = World(applied=("1-4",), age=10.0).play("""
        -- after(10)
        >> begin()
        << Send(r1, read, waited, confirm)
        -- asked()
        >> wait_answered(timeout, no, -)
        << Send(p, wait_timeout, primary); left r1: wait_timeout
    """)
    assert not play.topology.replicas[0].applied


def test_commits_are_not_in_order() -> None:
    """Where the order matters, every WAIT asks for it; then no further read is sent there."""
    World(applied=("1-4",), level=Level.READ_ALL_WRITES).play("""
        >> begin()
        << Send(r1, read, waited)
        >> wait_answered(reached, -, no)
        << Send(p, commit_order, primary); left r1: commit_order; proved 1-5
        >> ended()
        >> begin()
        << Send(p, commit_order, primary)
    """)


def test_the_order_of_commits_does_not_matter_to_all() -> None:
    World(age=10.0).play("""
        -- after(10)
        >> begin()
        << Send(r1, read, known, confirm)
        -- asked()
        >> confirm_answered(yes, no)
        << Pass
    """)


@pytest.mark.parametrize("answer", ["no", "-"])
def test_an_audit_fails(answer: str) -> None:
    play = World().play(f"""
        >> begin()
        << Send(r1, read, known)
        >> audit_answered({answer})
        << Send(p, audit_failed, primary); left r1: audit_failed
    """)
    assert bool(play.topology.replicas[0].applied) == (answer == "-")


def test_an_audit_holds() -> None:
    World().play("""
        >> begin()
        << Send(r1, read, known)
        >> audit_answered(yes)
        << Pass
    """)


# The primary shows less


SHOWN = World(applied=("1-5", "1-5"), own="1-5", level=Level.MONOTONIC_READS)


def test_the_primary_has_finished() -> None:
    play = SHOWN.play("""
        -- showed(r1)
        -- down(r1)
        -- down(r2)
        >> begin()
        << Send(p, no_replica, primary)
        >> settled(yes)
        << Send(p, no_replica, primary)
        >> ended()
    """)
    assert play.session.own_scope.seen_on is play.topology.primary


@pytest.mark.parametrize(
    ("policy", "answer"),
    [
        (TimeoutPolicy.PRIMARY, "Refuse(3024, wait_timeout)"),
        (TimeoutPolicy.ERROR, "Refuse(3024, wait_timeout)"),
        (TimeoutPolicy.STALE, "Send(p, wait_timeout, none); stale"),
    ],
)
def test_the_primary_has_not_finished(policy: TimeoutPolicy, answer: str) -> None:
    World(level=Level.MONOTONIC_READS, on_timeout=policy).play(f"""
        -- showed(r1)
        -- down(r1)
        >> begin()
        << Send(p, no_replica, primary)
        -- after(0.25)
        >> settled(no)
        << {answer}
        >> ended()
    """)


@pytest.mark.parametrize(
    ("idle", "answer"),
    [
        ("no, r1", "Send(r1, read, known); left p: wait_timeout"),
        ("no", "Refuse(3024, wait_timeout)"),
    ],
)
def test_a_replica_is_there_that_was_late(idle: str, answer: str) -> None:
    World(applied=("1-4",), level=Level.MONOTONIC_READS).play(f"""
        -- showed(r1)
        -- behind(r1)
        >> begin()
        << Send(p, replica_behind, primary)
        -- applied(r1, 1-5)
        >> settled({idle})
        << {answer}
    """)


def test_what_can_run_nowhere_else_is_not_sent_elsewhere() -> None:
    MONOTONIC.play("""
        >> bind(prepared)
        >> settled(no, r1, r2)
        << Refuse(3024, wait_timeout)
    """)


@pytest.mark.parametrize(
    ("policy", "idle", "answer"),
    [
        (TimeoutPolicy.PRIMARY, "r1", "Send(r1, read, known); left p: wait_timeout"),
        (TimeoutPolicy.PRIMARY, "", "Refuse(3024, wait_timeout)"),
        (TimeoutPolicy.ERROR, "r1", "Refuse(3024, wait_timeout)"),
        (TimeoutPolicy.STALE, "r1", "Send(r1, wait_timeout, none); stale"),
        (TimeoutPolicy.STALE, "", "Refuse(3024, wait_timeout)"),
    ],
)
def test_the_primary_does_not_even_say_that_it_has_not_finished(
    policy: TimeoutPolicy, idle: str, answer: str
) -> None:
    """Not even a stale answer comes from there."""
    World(level=Level.MONOTONIC_READS, on_timeout=policy).play(f"""
        -- showed(r1)
        -- down(r1)
        >> begin()
        << Send(p, no_replica, primary)
        -- after(0.5)
        >> unsettled({idle})
        << {answer}
        >> ended()
    """)


# Fallbacks


def test_a_replica_refuses() -> None:
    World().play("""
        >> begin()
        << Send(r1, read, known)
        >> refused(replica_refused)
        << Send(p, replica_refused, primary); left r1: replica_refused
        >> first_byte()
        >> ended()
    """)


def test_a_replica_breaks_before_the_first_byte() -> None:
    World().play("""
        >> begin()
        << Send(r1, read, known)
        >> lost()
        << Send(p, replica_lost, primary); left r1: replica_lost
    """)


def test_a_replica_breaks_within_the_answer() -> None:
    World().play("""
        >> begin()
        << Send(r1, read, known)
        >> first_byte()
        >> lost()
        << End(it broke)
    """)


# The client leaves


LEFT = {
    "asking": (STRONG, [">> begin()"]),
    "joined": (SNAPSHOT_AFTER, ["-- wait(r1, 1-5)", "-- after(0.01)", ">> begin()"]),
    "opening": (World(), [">> begin()", ">> absent()"]),
    "sent": (World(), [">> begin()"]),
    "passing": (World(), [">> begin()", ">> first_byte()"]),
    "delayed": (SNAPSHOT_AFTER, ["-- full(0.1)", ">> begin()", ">> wait_answered(timeout)"]),
    "done": (World(), []),
    "begun": (World(), [">> command()"]),
    "forwarded": (World(), [">> forward()"]),
    "answering": (World(), [">> begin()", ">> first_byte()", ">> lost()"]),
    "left": (World(), [">> begin()", ">> left()"]),
}


@pytest.mark.parametrize("stage", LEFT)
def test_the_client_leaves(stage: str) -> None:
    """Events that come afterwards change nothing."""
    world, lines = LEFT[stage]
    play = world.play("")
    list(play.lines(lines))
    assert play.read.stage == stage
    had = stage in ("sent", "passing", "delayed", "forwarded", "answering", "left")
    list(play.lines([">> left()"]))
    assert play.read.stage == ("left" if had else "done")
    late = [">> turn_came()"]
    if not had:
        late += [">> probe_answered(1-5)", ">> primary_silent()"]
        late += [">> released()", ">> out_of_time()"]
    assert list(play.lines(late)) == [text for line in late for text in (line, "<< Nothing")]
    list(play.lines([">> left()", ">> ended()", ">> left()"]))
    assert play.read.stage == "done"


# There is no primary


@pytest.mark.parametrize(
    ("policy", "answer"),
    [
        (TimeoutPolicy.PRIMARY, "Refuse(2003, no_primary)"),
        (TimeoutPolicy.ERROR, "Refuse(2003, no_primary)"),
        (TimeoutPolicy.STALE, "Send(r1, wait_timeout, none); stale"),
    ],
)
def test_a_read_that_no_replica_may_answer(policy: TimeoutPolicy, answer: str) -> None:
    World(applied=("1-5",), on_timeout=policy).play(f"""
        >> begin()
        << Send(r1, read, known)
        >> refused(replica_lost)
        << Send(p, replica_lost, primary); left r1: replica_lost
        >> no_primary()
        << {answer}
    """)


def test_a_write_has_no_stale_answer() -> None:
    World(on_timeout=TimeoutPolicy.STALE).play("""
        >> begin(write)
        << Send(p, write, primary)
        >> no_primary()
        << Refuse(2003, no_primary)
    """)


def test_a_read_that_was_with_the_primary_is_chosen_for_again() -> None:
    World().play("""
        >> begin()
        << Send(r1, read, known)
        >> refused(replica_refused)
        << Send(p, replica_refused, primary); left r1: replica_refused
        >> primary_lost()
        << Send(r1, read, known)
    """)


# The table


EVENTS = {event for _, event in TABLE}
STAGES = {stage for stage, _ in TABLE}


@pytest.mark.parametrize("event", sorted(EVENTS))
@pytest.mark.parametrize("stage", sorted(STAGES))
def test_an_event_that_nobody_can_expect_is_a_defect(stage: str, event: str) -> None:
    if (stage, event) in TABLE:
        return
    world, lines = LEFT[stage]
    play = world.play("")
    list(play.lines(lines))
    words = {"probe_answered": "1-5", "wait_answered": "reached", "bind": "cursor"}
    words |= {"audit_answered": "yes", "settled": "yes"}
    words |= {"refused": "replica_refused", "unfit": "replica_behind"}
    with pytest.raises(UnexpectedEventError, match=f"^{event} at stage {stage}:"):
        play.tell(event, [words[event]] if event in words else [])
    assert play.read.stage == stage


def test_each_event_is_a_method() -> None:
    for event in EVENTS:
        if event in OF_ANY_COMMAND:
            assert callable(getattr(CommandProgress, f"on_{event}"))
        else:
            assert callable(getattr(Read, event))
