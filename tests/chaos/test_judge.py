"""The judge finds each kind of planted violation, and none where all is well."""

from dataclasses import replace

from routing.consistency.decision import Level, Scope
from tests.chaos.judge import BOUND_S, judge, lost
from tests.chaos.trial import NS, Loss, Operation, Trial
from tests.support.history import Read, ScopeKey, Write

OWN: ScopeKey = (Scope.CONNECTION, "c")


def write(value: int, invoked: int, acknowledged: int | None) -> Write:
    return Write("c", frozenset({OWN}), 1, value, invoked, acknowledged)


def read(value: int, invoked: int, level: Level = Level.READ_OWN_WRITES) -> Read:
    return Read("c", OWN, level, 1, value, invoked, invoked + 5, 0, frozenset({OWN}))


def kinds(trial: Trial, places: dict[int, int], *outages: tuple[int, int]) -> list[str]:
    return [finding.kind for finding in judge(trial, places, outages)]


def trial(*history: Write | Read, loss: Loss | None = None) -> Trial:
    return Trial(1, "a fault", history=list(history), loss=loss)


GOOD = (write(1, 10, 20), read(1, 30), write(2, 40, 50), read(2, 60))


def test_all_is_well() -> None:
    assert kinds(trial(*GOOD), {1: 0, 2: 1}) == []


def test_a_stale_read() -> None:
    assert kinds(trial(*GOOD, read(1, 70)), {1: 0, 2: 1}) == ["a stale read at READ_OWN_WRITES"]
    assert kinds(trial(*GOOD, read(1, 70, Level.BEST_EFFORT)), {1: 0, 2: 1}) == []


def test_a_replica_that_has_lost_what_it_proved_is_relied_on_for_a_while() -> None:
    stale = trial(*GOOD, read(1, 70), read(1, 90))
    stale.trusted = 72, 80  # the first read returned at 75
    assert kinds(stale, {1: 0, 2: 1}) == ["a stale read at READ_OWN_WRITES"]
    stale.trusted = 72, 90
    assert kinds(stale, {1: 0, 2: 1}) == []
    stale.trusted = 76, 80
    assert len(kinds(stale, {1: 0, 2: 1})) == 2


def test_an_acknowledged_write_that_is_gone() -> None:
    found = judge(trial(write(1, 10, 20), write(2, 40, 50)), {1: 0}, ())
    assert [finding.kind for finding in found] == ["an acknowledged write is gone"]
    assert "2 (written by c in 40..50)" in found[0].text


def test_a_write_that_nobody_acknowledged_may_be_gone() -> None:
    assert kinds(trial(write(1, 10, None)), {}) == []


def test_a_read_of_what_was_never_committed() -> None:
    history = (write(1, 10, None), read(1, 30, Level.BEST_EFFORT))
    assert kinds(trial(*history), {}) == ["a read of what was never committed"]
    assert kinds(trial(*history), {1: 0}) == []


def test_commits_in_an_impossible_order() -> None:
    assert kinds(trial(*GOOD), {2: 0, 1: 1}) == ["commits in an impossible order"]


def test_a_fault_may_lose_what_was_written_before_it_and_nothing_else() -> None:
    loss = Loss(55, 58)
    both = trial(*GOOD[:3], read(1, 60), loss=loss)
    assert kinds(both, {1: 0}) == []
    assert [write.value for write in lost(both, {1: 0})] == [2]
    # Before the loss it had to be seen, and what comes behind the loss is not lost.
    assert kinds(trial(*GOOD[:3], read(1, 45), read(1, 60), loss=loss), {1: 0}) == []
    early = trial(write(1, 10, 20), write(2, 21, 25), read(1, 30), loss=loss)
    assert kinds(early, {1: 0}) == ["a stale read at READ_OWN_WRITES"]
    late = trial(*GOOD[:2], write(2, 59, 60), loss=loss)
    assert kinds(late, {1: 0}) == ["an acknowledged write is gone"]


def test_a_loss_does_not_excuse_stale_reads_of_what_is_left() -> None:
    found = kinds(trial(*GOOD, read(1, 70), loss=Loss(5, 8)), {1: 0, 2: 1})
    assert found == ["a stale read at READ_OWN_WRITES"]


def test_a_loss_must_be_told_to_each_scope_that_outlives_it() -> None:
    scope: ScopeKey = (Scope.USER, "app")
    gone = replace(write(1, 10, 20), scopes=frozenset({OWN, scope}))
    later = replace(read(0, 70), scope=scope)
    refused = Operation("c", "read", 60, 65, "1105", scope)
    silent = trial(gone, later, loss=Loss(30, 40))
    assert kinds(silent, {}) == ["a loss that was not told"]
    assert kinds(replace(silent, failures=[refused]), {}) == []
    assert kinds(replace(silent, history=[gone, replace(later, invoked=35)]), {}) == []
    assert kinds(trial(write(1, 10, 20), read(0, 70), loss=Loss(30, 40)), {}) == []


def test_an_error_that_a_harmless_fault_does_not_explain() -> None:
    def found(operation: str, outcome: str, *, harmless: bool = True) -> list[str]:
        failed = replace(trial(), failures=[Operation("c", operation, 1, 2, outcome)])
        return [finding.kind for finding in judge(failed, {}, (), harmless=harmless)]

    assert found("write", "2013") == ["an error that the fault does not explain"]
    assert found("read", "2013") == ["an error that the fault does not explain"]
    assert found("read", "2013", harmless=False) == []
    assert found("read", "3024") == []
    assert found("transaction", "2013") == []


def test_a_hang_but_for_the_time_in_which_the_primary_was_gone() -> None:
    bound = round(BOUND_S * NS)
    long = Operation("c", "read", 100, 101 + bound, "ok")
    patient = replace(trial(), slow=[long])
    assert kinds(patient, {}) == ["a hang"]
    assert kinds(patient, {}, (0, 50)) == ["a hang"]
    assert kinds(patient, {}, (0, 102)) == []
    assert kinds(patient, {}, (100 + bound, 200 + bound)) == []
    assert kinds(replace(trial(), slow=[replace(long, ended=100 + bound)]), {}) == []


def test_levels_at_which_nobody_reads_without_the_primary() -> None:
    levels = (Level.BEST_EFFORT, Level.READ_OWN_WRITES, Level.MONOTONIC_READS)
    answered = [read(1, 20 + number, level) for number, level in enumerate(levels)]
    judged = trial(write(1, 1, 3), *answered)
    assert kinds(judged, {1: 1}) == []
    judged.absence = (10, 40)
    assert kinds(judged, {1: 1}) == ["no read without the primary"]  # at READ_ALL_WRITES
    judged.absence = (10, 21)
    assert kinds(judged, {1: 1}) == ["no read without the primary"] * 4


def test_a_quiet_trial_knows_of_writes_that_are_under_way() -> None:
    quiet = trial()
    assert quiet.begin_write()
    quiet.stop_writing()
    assert not quiet.begin_write()
    assert quiet.writing == 1
    quiet.end_write()
    assert not quiet.writing
