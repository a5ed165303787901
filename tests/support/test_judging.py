"""Many seeds are judged, and what was found is told whatever happens."""

from collections.abc import Callable

import pytest

from protocol.constants import Capability
from tests.differential.comparison import Difference
from tests.differential.session import Session
from tests.differential.shrinking import Judge
from tests.differential.step import Query
from tests.support.judging import REPORTED, deep_seeds, judge_seeds


def generate(seed: int) -> Session:
    """One step that matters, behind others."""
    steps = (Query("other 1"), Query("other 2"), Query(f"effect {seed}"))
    return Session(Capability(0), "app", steps)


def judging(*differing: int) -> Judge:
    """Finds that the sessions of these seeds differ in their last step."""

    def judge(session: Session) -> Difference | None:
        last = session.steps[-1]
        if last not in [Query(f"effect {seed}") for seed in differing]:
            return None
        return Difference(len(session.steps), (), (), Capability(0))

    return judge


def failing_at(judged: int, judge: Judge) -> Judge:
    """Like `judge`, but fails when it is asked that often."""
    count = 0

    def fail(session: Session) -> Difference | None:
        nonlocal count
        count += 1
        if count == judged:
            raise ConnectionError("the server has gone")
        return judge(session)

    return fail


def none(_session: Session, _found: Difference) -> bool:
    return False


def test_sessions_that_agree_are_no_failure() -> None:
    assert judge_seeds(range(5), generate, judging(), none) == 0


def test_a_report_names_the_seed_and_the_few_steps_that_it_needs() -> None:
    with pytest.raises(AssertionError) as raised:
        judge_seeds(range(5), generate, judging(3), none)
    text = str(raised.value)
    assert "seed 3:" in text
    assert "effect 3" in text
    assert "other" not in text


def test_what_is_accepted_is_counted() -> None:
    def known(session: Session, _found: Difference) -> bool:
        return session.steps[-1] == Query("effect 1")

    assert judge_seeds(range(3), generate, judging(1), known) == 1
    with pytest.raises(AssertionError, match="seed 2:"):
        judge_seeds(range(3), generate, judging(1, 2), known)


def test_it_ends_with_so_many_kinds() -> None:
    with pytest.raises(AssertionError) as raised:
        judge_seeds(range(100), generate, judging(*range(100)), none)
    assert str(raised.value).count("seed ") == REPORTED


def test_one_kind_is_shown_once() -> None:
    def same(_seed: int) -> Session:
        return generate(1)

    with pytest.raises(AssertionError) as raised:
        judge_seeds(range(100), same, judging(1), none)
    assert str(raised.value).count("seed ") == 1


@pytest.mark.parametrize(
    ("judged", "message"),
    [
        pytest.param(6, "other 2", id="while it shrinks"),
        pytest.param(12, "effect 3", id="later"),
    ],
)
def test_reports_survive_a_judge_that_fails(judged: int, message: str) -> None:
    judge: Callable[[Session], Difference | None] = failing_at(judged, judging(3))
    with pytest.raises(ConnectionError) as raised:
        judge_seeds(range(100), generate, judge, none)
    (note,) = raised.value.__notes__
    assert "seed 3:" in note
    assert message in note


def test_the_environment_names_the_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TIDEGATE_SEEDS", "TIDEGATE_SESSIONS"):
        monkeypatch.delenv(name, raising=False)
    assert deep_seeds(7) == range(1000, 1007)
    monkeypatch.setenv("TIDEGATE_SESSIONS", "3")
    assert deep_seeds(7) == range(1000, 1003)
    monkeypatch.setenv("TIDEGATE_SEEDS", "5-6")
    assert deep_seeds(7) == range(5, 7)
    monkeypatch.setenv("TIDEGATE_SEEDS", "8")
    assert deep_seeds(7) == range(8, 9)
