"""Replicas that have refused what a session carries."""

from routing.session.objections import Objections
from tests.routing.test_policy import topology_of

(ONE, OTHER) = topology_of("", "").replicas
TOLD = (1, 0, 0)


def test_each_refusal_of_the_same_is_remembered_for_longer() -> None:
    objections = Objections()
    assert not objections.last
    now = 100.0
    pauses = []
    for _ in range(20):
        pauses.append(objections.add(ONE, "no", TOLD, now))
        assert objections.hold(ONE, TOLD, now)
        now += pauses[-1]
        assert not objections.hold(ONE, TOLD, now)
    assert pauses[:4] == [1, 2, 4, 8]
    assert pauses[-1] == pauses[-2] == 3600


def test_something_else_may_be_taken() -> None:
    objections = Objections()
    objections.add(ONE, "no", TOLD, 100.0)
    objections.add(ONE, "no", TOLD, 100.0)
    assert objections.causes(TOLD) == [(ONE, "no")]
    for told in ((2, 0, 0), (1, 1, 0), (1, 0, 1)):
        assert not objections.hold(ONE, told, 100.0)
        assert not objections.causes(told)
    assert not objections.hold(OTHER, TOLD, 100.0)
    assert objections.add(ONE, "nor this", (2, 0, 0), 100.0) == 1
    assert objections.causes((2, 0, 0)) == [(ONE, "nor this")]
    objections.clear()
    assert not objections.hold(ONE, (2, 0, 0), 100.0)
