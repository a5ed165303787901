"""How another server becomes the primary, and how it only seems so.

Who promotes makes a replica writable; the proxy (failover = read_only) sees that by itself.
"""

from tests.chaos.scene import Scene, fault

_SESSIONS_END = (
    "sessions that have something on the old primary: they end; writes until the proxy follows"
)


@fault(_SESSIONS_END, needs_failover=True)
def planned_switch_over(scene: Scene) -> None:
    """A replica becomes the primary in good order, and the primary a replica."""
    scene.cluster.switch_over(scene.some_replica())
    scene.work_on()


@fault(
    f"{_SESSIONS_END}; the writes that the new primary had not received",
    needs_failover=True,
)
def unplanned_promotion(scene: Scene) -> None:
    """The primary is killed, and a replica that lacks its last writes takes over."""
    cluster = scene.cluster
    for replica in cluster.replicas:
        replica.query("STOP REPLICA IO_THREAD")
    scene.work_on(0.1)
    with cluster.primary_gone():
        with scene.trial.losing():
            cluster.primary.kill()
        scene.work_on(0.2)
        cluster.promote(scene.some_replica())
    scene.work_on(0.7)


@fault(
    f"{_SESSIONS_END}; writes that the new primary had not received, or that the old one takes"
    " before the proxy has seen that it is down",
    needs_failover=True,
)
def frozen_primary_replaced(scene: Scene) -> None:
    """The primary stands still, a replica takes over, and the old one goes on, writable."""
    cluster = scene.cluster
    old = cluster.primary
    with scene.trial.losing(), cluster.primary_gone():
        old.pause()
        scene.work_on(0.7)
        cluster.promote(scene.some_replica())
    scene.watch.wait_for_primary(cluster.primary)  # before it has seen, two are as good
    scene.work_on(0.3)
    old.resume()
    scene.work_on(0.5)
    old.kill()


@fault("writes while the primary stands still", needs_failover=True)
def replica_comes_back_writable(scene: Scene) -> None:
    """While the primary stands still, a replica restarts without read_only: no promotion."""
    replica = scene.some_replica()
    replica.stop()
    with scene.cluster.primary_gone():
        scene.primary.pause()
        try:
            replica.start()
            scene.work_on()
        finally:
            scene.primary.resume()
    scene.work_on(0.3)
    replica.query("SET GLOBAL super_read_only = ON")
