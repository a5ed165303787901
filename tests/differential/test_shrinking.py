"""What is left of a session is what its difference needs."""

import random

from protocol.constants import Capability
from tests.differential.comparison import Difference
from tests.differential.generator import Generator
from tests.differential.server_defaults import ServerDefault
from tests.differential.session import Session
from tests.differential.shrinking import shrink
from tests.differential.step import Query, Step

CAUSES = (Query("cause 1"), Query("cause 2"))
EFFECT = Query("effect")


def judge(session: Session) -> Difference | None:
    """The effect differs behind both causes in their order."""
    steps: list[Step] = list(session.steps)
    for number, step in enumerate(steps):
        before = [other for other in steps[:number] if other in CAUSES]
        if step == EFFECT and tuple(before) == CAUSES:
            return Difference(number + 1, (), (), Capability(0))
    return None


def test_only_what_the_difference_needs_is_left() -> None:
    for seed in range(20):
        steps = [Query(f"other {k}") for k in range(40)]
        for index, step in zip(
            sorted(random.Random(seed).sample(range(40), 3)), (*CAUSES, EFFECT), strict=True
        ):
            steps[index] = step
        session = Session(Capability(0), "app", tuple(steps))
        found = judge(session)
        assert found is not None
        shrunk, found = shrink(session, found, judge)
        assert shrunk.steps == (*CAUSES, EFFECT)
        assert found.step == 3


def test_a_difference_at_the_login_needs_no_step() -> None:
    session = Session(Capability(0), "app", (EFFECT,))
    shrunk, _ = shrink(session, Difference(0, (), (), Capability(0)), judge)
    assert shrunk.steps == ()


def test_only_the_default_that_the_difference_needs_is_left() -> None:
    needed, other = ServerDefault("primary", "a", 1), ServerDefault("replicas", "b", 2)

    def judge_defaults(session: Session) -> Difference | None:
        differs = needed in session.defaults and EFFECT in session.steps
        return Difference(len(session.steps), (), (), Capability(0)) if differs else None

    session = Session(Capability(0), "app", (EFFECT,), collation=8, defaults=(other, needed))
    shrunk, _ = shrink(session, Difference(1, (), (), Capability(0)), judge_defaults)
    assert shrunk == Session(Capability(0), "app", (EFFECT,), defaults=(needed,))


def test_a_seed_is_a_session() -> None:
    assert Generator(7).session() == Generator(7).session()
    assert Generator(7).session() != Generator(8).session()
