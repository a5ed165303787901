"""The checker of histories: every rule both ways, and against the definitions written out."""

from dataclasses import replace

import pytest

from routing.consistency.decision import Level, Scope
from tests.support.history import Read, Register, ScopeKey, Stamps, Write
from tests.support.history_checker import Rule, Violation, check

A: ScopeKey = (Scope.CONNECTION, "a")
B: ScopeKey = (Scope.CONNECTION, "b")
USER: ScopeKey = (Scope.USER, "app")
PROXY: ScopeKey = (Scope.PROXY, "tide")
History = list[Write | Read]
SESSION_LEVELS = [Level.READ_OWN_WRITES, Level.MONOTONIC_READS, Level.READ_ALL_WRITES]


def write(
    value: int,
    invoked: int,
    acknowledged: int | None,
    *scopes: ScopeKey,
    register: Register = "x",
    order: int | None = None,
) -> Write:
    return Write("w", frozenset(scopes), register, value, invoked, acknowledged, order)


def read(
    value: int | None,
    invoked: int,
    level: Level,
    scope: ScopeKey = A,
    register: Register = "x",
    staleness: int = 0,
) -> Read:
    return Read("r", scope, level, register, value, invoked, invoked + 5, staleness)


def rules(*history: Write | Read, order_spans_registers: bool = True) -> list[Rule]:
    found = check(history, order_spans_registers=order_spans_registers)
    return [violation.rule for violation in found]


# --- values that no level allows ----------------------------------------------------------------


@pytest.mark.parametrize("level", Level)
def test_a_value_that_nobody_wrote(level: Level) -> None:
    assert rules(write(1, 0, 10), read(2, 20, level)) == [Rule.NEVER_WRITTEN]
    assert rules(write(1, 0, 10), read(1, 20, level, register="y")) == [Rule.NEVER_WRITTEN]
    assert rules(write(1, 0, 10), read(1, 20, level)) == []


@pytest.mark.parametrize("level", Level)
def test_a_value_that_was_not_committed(level: Level) -> None:
    unknown = write(1, 0, None, A)
    assert rules(unknown, read(1, 20, level)) == []
    assert rules(unknown, read(None, 20, level)) == []
    aborted = replace(unknown, aborted=True)
    assert rules(aborted, read(1, 20, level)) == [Rule.ABORTED]
    assert rules(aborted, read(0, 20, level)) == []


@pytest.mark.parametrize("level", Level)
def test_a_value_that_had_not_been_written_yet(level: Level) -> None:
    assert rules(write(1, 26, 30), read(1, 20, level)) == [Rule.FUTURE]
    assert rules(write(1, 25, 30), read(1, 20, level)) == []  # at the same time


def test_a_value_that_could_not_be_read_counts_as_unseen() -> None:
    history: History = [write(1, 0, 10), read(2, 20, Level.MONOTONIC_READS)]
    old = read(1, 40, Level.MONOTONIC_READS)
    aborted = replace(write(2, 11, None), aborted=True)
    assert rules(*history, old, aborted) == [Rule.ABORTED]
    assert rules(*history, old, write(2, 26, None)) == [Rule.FUTURE]
    assert rules(*history, old, write(2, 25, None)) == [Rule.MONOTONIC]


@pytest.mark.parametrize("value", [None, 0])
def test_nothing_need_be_there_at_first(value: int | None) -> None:
    history = [read(value, 20, level) for level in Level]
    assert rules(*history, write(1, 30, 40, A)) == []


# --- own writes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("level", SESSION_LEVELS)
def test_own_writes_must_be_seen(level: Level) -> None:
    first, second = write(1, 0, 10, A), write(2, 20, 30, A)
    assert rules(first, second, read(1, 31, level)) == [Rule.OWN_WRITES]
    assert rules(first, second, read(None, 11, level)) == [Rule.OWN_WRITES]
    assert rules(first, second, read(2, 31, level)) == []
    assert rules(first, second, read(1, 30, level)) == []  # at the same time
    assert rules(first, replace(second, acknowledged=None), read(1, 40, level)) == []


def test_a_newer_version_than_the_own_one_will_do() -> None:
    own, other = write(1, 0, 10, A), write(2, 11, 20, B)
    assert rules(own, other, read(2, 30, Level.READ_OWN_WRITES)) == []


@pytest.mark.parametrize("level", SESSION_LEVELS)
def test_whose_writes_are_own_is_a_matter_of_the_scope(level: Level) -> None:
    both = write(1, 0, 10, B, USER)
    assert rules(both, read(None, 20, level, A)) == []
    assert rules(both, read(None, 20, level, USER)) == [Rule.OWN_WRITES]
    assert rules(both, read(None, 20, level, PROXY)) == []
    assert rules(write(1, 0, 10, PROXY), read(None, 20, level, PROXY)) == [Rule.OWN_WRITES]
    assert rules(write(1, 0, 10, (Scope.USER, "b")), read(None, 20, level, USER)) == []


def test_best_effort_promises_nothing() -> None:
    assert rules(write(1, 0, 10, A), read(None, 20, Level.BEST_EFFORT)) == []


# --- what was seen before -----------------------------------------------------------------------


def test_reads_never_go_back() -> None:
    history: History = [write(1, 0, 10), write(2, 11, 20)]
    monotonic = Level.MONOTONIC_READS
    assert rules(*history, read(2, 30, monotonic), read(1, 36, monotonic)) == [Rule.MONOTONIC]
    assert rules(*history, read(1, 30, monotonic), read(2, 36, monotonic)) == []
    # the second began before the first was answered
    assert rules(*history, read(2, 30, monotonic), read(1, 35, monotonic)) == []
    # another scope saw it
    assert rules(*history, read(2, 30, monotonic, B), read(1, 36, monotonic)) == []
    # lesser levels may go back; what they saw counts nevertheless
    own_writes = Level.READ_OWN_WRITES
    assert rules(*history, read(2, 30, monotonic), read(1, 36, own_writes)) == []
    assert rules(*history, read(2, 30, own_writes), read(1, 36, monotonic)) == [Rule.MONOTONIC]


def test_a_read_counts_as_seen_in_all_its_scopes() -> None:
    seen = replace(read(1, 20, Level.MONOTONIC_READS, B), scopes=frozenset({USER}))
    later = read(None, 30, Level.MONOTONIC_READS, USER)
    assert rules(write(1, 0, 10), seen, later) == [Rule.MONOTONIC]
    assert rules(write(1, 0, 10), replace(seen, scopes=frozenset()), later) == []


def test_what_was_read_was_committed_though_never_acknowledged() -> None:
    level = Level.MONOTONIC_READS
    vague = write(2, 11, None)
    history: History = [write(1, 0, 10), vague, read(2, 20, level)]
    assert rules(*history, read(1, 30, level)) == [Rule.MONOTONIC]
    # 3 began when 2 had been read: 2 is older
    history.append(write(3, 30, 40, A))
    assert rules(*history, read(2, 50, Level.READ_OWN_WRITES)) == [Rule.OWN_WRITES]
    # 3 began before: 2 may be newer
    history[-1] = write(3, 20, 40, A)
    assert rules(*history, read(2, 50, Level.READ_OWN_WRITES)) == []


def test_monotonic_reads_is_about_each_register_by_itself() -> None:
    level = Level.MONOTONIC_READS
    history: History = [write(1, 0, 10, order=1), write(2, 11, 20, register="y", order=2)]
    assert rules(*history, read(2, 30, level, register="y"), read(None, 40, level)) == []


# --- all writes before what was seen ------------------------------------------------------------


def test_what_was_acknowledged_before_something_seen_began_must_be_seen() -> None:
    level = Level.READ_ALL_WRITES
    earlier, later = write(1, 0, 10), write(2, 11, 20, register="y")
    saw = read(2, 30, level, register="y")
    assert rules(earlier, later, saw, read(None, 40, level)) == [Rule.ALL_WRITES]
    assert rules(earlier, later, saw, read(1, 40, level)) == []
    assert rules(earlier, later, saw, read(None, 35, level)) == []  # at the same time
    assert rules(earlier, later, read(None, 40, level)) == []  # not seen
    # both at the same time: which was first is not known
    assert rules(replace(earlier, acknowledged=11), later, saw, read(None, 40, level)) == []
    # an own write is seen, too
    own = replace(later, scopes=frozenset({A}))
    assert rules(earlier, own, read(None, 40, level)) == [Rule.ALL_WRITES]
    assert rules(earlier, own, read(None, 40, Level.MONOTONIC_READS)) == []


def test_what_has_a_lower_order_than_something_seen_must_be_seen() -> None:
    level = Level.READ_ALL_WRITES
    earlier, later = write(1, 0, None, order=1), write(2, 0, 20, register="y", order=2)
    history: History = [earlier, later, read(2, 30, level, register="y"), read(None, 40, level)]
    assert rules(*history) == [Rule.ALL_WRITES]
    assert rules(*history, order_spans_registers=False) == []
    assert rules(replace(earlier, order=3), *history[1:]) == []


# --- all writes, whoever saw them ---------------------------------------------------------------


def test_strong_sees_what_anybody_was_told() -> None:
    level = Level.STRONG
    history: History = [write(1, 0, 10), write(2, 11, 20)]  # in no scope: past the proxy
    assert rules(*history, read(1, 21, level)) == [Rule.STRONG]
    assert rules(*history, read(None, 11, level)) == [Rule.STRONG]
    assert rules(*history, read(1, 20, level)) == []
    assert rules(*history, read(2, 21, level)) == []
    assert rules(write(1, 0, None), read(None, 20, level)) == []


def test_bounded_staleness_sees_what_was_told_before_the_bound() -> None:
    level = Level.BOUNDED_STALENESS
    history: History = [write(1, 0, 10, A), write(2, 11, 20, A)]
    assert rules(*history, read(1, 71, level, staleness=50)) == [Rule.STALENESS]
    assert rules(*history, read(1, 70, level, staleness=50)) == []
    assert rules(*history, read(None, 61, level, staleness=50)) == [Rule.STALENESS]
    assert rules(*history, read(2, 71, level, staleness=50)) == []


# --- the order of versions ----------------------------------------------------------------------


def test_order_tells_versions_apart_where_times_do_not() -> None:
    first, second = write(1, 0, 10, A, order=1), write(2, 0, 10, A, order=2)
    stale, fresh = read(1, 20, Level.READ_OWN_WRITES), read(2, 20, Level.READ_OWN_WRITES)
    assert rules(first, second, stale) == [Rule.OWN_WRITES]
    assert rules(first, second, fresh) == []
    assert rules(replace(first, order=None), replace(second, order=None), stale, fresh) == []
    # at the same time: neither is older
    assert rules(write(1, 0, 10, A), write(2, 10, 20, A), read(1, 30, Level.STRONG)) == []


def test_a_lost_write_need_not_be_seen() -> None:
    lost = replace(write(2, 11, 20, A), lost=True)
    history: History = [write(1, 0, 10, A), lost]
    for level in Level:
        again = read(1, 40, level)
        assert rules(*history, read(2, 30, level), again) == []
    # once overwritten, it must not be seen any more
    history.append(write(3, 50, 60, A))
    assert rules(*history, read(2, 70, Level.READ_OWN_WRITES)) == [Rule.OWN_WRITES]


def test_histories_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="not a new value"):
        check([write(1, 0, 10), write(1, 20, 30)])
    with pytest.raises(ValueError, match="not a new value"):
        check([write(0, 0, 10)])
    with pytest.raises(ValueError, match="aborted and committed"):
        check([replace(write(1, 0, 10), aborted=True)])
    with pytest.raises(ValueError, match="aborted and committed"):
        check([replace(write(1, 0, None, order=1), aborted=True)])
    contradiction = [write(1, 0, 10, order=2), write(1, 20, 30, register="y", order=1)]
    with pytest.raises(ValueError, match="order contradicts times"):
        check(contradiction)
    assert check(contradiction, order_spans_registers=False) == []
    with pytest.raises(ValueError, match="order contradicts times"):
        check([write(1, 0, 10, order=2), write(2, 20, 30, order=1)], order_spans_registers=False)


# --- what is told ---------------------------------------------------------------------------------


def test_a_violation_names_read_missed_write_and_reason() -> None:
    first, second = write(1, 0, 10), write(2, 11, 20, order=None)
    saw, stale = read(2, 30, Level.MONOTONIC_READS), read(1, 40, Level.MONOTONIC_READS)
    (violation,) = check([first, second, saw, stale])
    assert violation == Violation(Rule.MONOTONIC, stale, first, second, saw)
    assert str(violation) == (
        "r read register 'x' in 40..45 at MONOTONIC_READS, scope connection 'a':"
        " got 1 (written by w in 0..10), missed 2 (written by w in 11..20), which had been read in"
        " its scope: r read register 'x' in 30..35 at MONOTONIC_READS, scope connection 'a', got 2"
    )


def test_a_violation_by_way_of_another_register_names_what_was_seen() -> None:
    earlier, later = write(1, 0, 10), write(2, 11, 20, register="y")
    saw = read(2, 30, Level.READ_ALL_WRITES, register="y")
    stale = read(None, 40, Level.READ_ALL_WRITES)
    (violation,) = check([earlier, later, saw, stale])
    assert violation == Violation(Rule.ALL_WRITES, stale, None, earlier, saw)
    assert str(violation).endswith(
        ": got the initial value, missed 1 (written by w in 0..10), which was committed before what"
        " its scope had seen: r read register 'y' in 30..35 at READ_ALL_WRITES, scope connection"
        " 'a', got 2"
    )
    own = replace(later, scopes=frozenset({A}))
    (violation,) = check([earlier, own, stale])
    assert violation.witness == own
    assert str(violation).endswith("its scope had seen: 2 (written by w in 11..20)")
    (violation,) = check([earlier, read(1, 20, Level.STRONG), read(None, 30, Level.STRONG)])
    assert str(violation).endswith("(written by w in 0..10), which was acknowledged before")
    (violation,) = check([read(7, 20, Level.STRONG)])
    assert str(violation).endswith("got 7, which nobody ever wrote")


def test_stamps_are_all_different() -> None:
    times = iter([5, 5, 3, 9])
    stamps = Stamps(lambda: next(times))
    assert [stamps() for _ in range(4)] == [5, 6, 7, 9]
