"""Replicas that have refused what a session carries."""

from routing.session.replica_rejections import ReplicaRejections
from tests.routing.test_policy import topology_of

(ONE, OTHER) = topology_of("", "").replicas
TOLD = (1, 0, 0)


def test_each_refusal_of_the_same_is_remembered_for_longer() -> None:
    rejections = ReplicaRejections()
    assert not rejections.last
    now = 100.0
    pauses = []
    for _ in range(20):
        pauses.append(rejections.add(ONE, "no", TOLD, now))
        assert rejections.hold(ONE, TOLD, now)
        now += pauses[-1]
        assert not rejections.hold(ONE, TOLD, now)
    assert pauses[:4] == [1, 2, 4, 8]
    assert pauses[-1] == pauses[-2] == 3600


def test_something_else_may_be_taken() -> None:
    rejections = ReplicaRejections()
    rejections.add(ONE, "no", TOLD, 100.0)
    rejections.add(ONE, "no", TOLD, 100.0)
    assert rejections.causes(TOLD) == [(ONE, "no")]
    for versions in ((2, 0, 0), (1, 1, 0), (1, 0, 1)):
        assert not rejections.hold(ONE, versions, 100.0)
        assert not rejections.causes(versions)
    assert not rejections.hold(OTHER, TOLD, 100.0)
    assert rejections.add(ONE, "nor this", (2, 0, 0), 100.0) == 1
    assert rejections.causes((2, 0, 0)) == [(ONE, "nor this")]
    rejections.clear()
    assert not rejections.hold(ONE, (2, 0, 0), 100.0)
