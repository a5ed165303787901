"""What befalls a group, and what its members do by themselves."""

from typing import cast

from tests.chaos.group_cluster import GroupChaosCluster
from tests.chaos.scene import Scene, fault

_SESSIONS_END = "sessions: they end; writes until the proxy follows"


def _group(scene: Scene) -> GroupChaosCluster:
    return cast("GroupChaosCluster", scene.cluster)


@fault(_SESSIONS_END, needs_group=True)
def group_switch_over(scene: Scene) -> None:
    """Another member is made the primary (group_replication_set_as_primary)."""
    cluster = _group(scene)
    with cluster.primary_gone():
        cluster.group.switch_to(scene.some_replica())
        cluster.follow_election()
    scene.watch.wait_for_primary(cluster.primary)
    scene.work_on()


@fault(f"{_SESSIONS_END}; whether writes under way took effect", needs_group=True)
def group_primary_killed(scene: Scene) -> None:
    """The primary is killed; the others expel it and elect another; it comes back."""
    cluster, old = _group(scene), scene.primary
    with cluster.primary_gone():
        old.kill()
        cluster.wait_for_election(old)
    scene.watch.wait_for_primary(cluster.primary)
    scene.work_on(0.5)
    cluster.start(old)
    scene.work_on(0.5)


@fault(f"{_SESSIONS_END}; whether writes under way took effect", needs_group=True)
def group_primary_frozen(scene: Scene) -> None:
    """The primary stands still until another is elected, and wakes up as if nothing had been."""
    cluster, old = _group(scene), scene.primary
    with cluster.primary_gone():
        old.pause()
        cluster.wait_for_election(old)
    scene.watch.wait_for_primary(cluster.primary)
    old.resume()
    scene.work_on()


@fault("writes, STRONG and BOUNDED_STALENESS, for as long as it lasts", needs_group=True)
def group_without_quorum(scene: Scene) -> None:
    """Both secondaries stand still for longer than the group bears: nothing is committed."""
    with _group(scene).without_quorum():
        scene.work_on(2)
    scene.work_on(0.3)


@fault("nothing: reads run elsewhere", needs_group=True)
def group_member_leaves(scene: Scene) -> None:
    """A secondary leaves the group (STOP GROUP_REPLICATION), falls behind, and joins again."""
    cluster, member = _group(scene), scene.some_replica()
    member.query("STOP GROUP_REPLICATION")
    scene.work_on(0.6)
    cluster.group.join(member)
    scene.work_on(0.4)


@fault("nothing: reads run elsewhere", needs_group=True)
def group_member_killed(scene: Scene) -> None:
    """A secondary is killed, and joins again."""
    cluster, member = _group(scene), scene.some_replica()
    member.kill()
    scene.work_on(0.6)
    cluster.start(member)
    scene.work_on(0.4)
