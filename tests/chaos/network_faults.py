"""What befalls the network between the proxy and a server."""

from tests.chaos.scene import Scene, fault

_BEGUN = "transactions that read there, and answers that had begun"
_PRIMARY_GONE = (
    "writes, sessions that have something there, and reads that need the primary, for as long as it"
    " lasts"
)


@fault(_BEGUN, harmless=True, in_group=True)
def replica_connections_cut(scene: Scene) -> None:
    """Again and again all connections to a replica are reset."""
    for _ in range(8):
        scene.relays[scene.some_replica()].cut()
        scene.work_on(0.125)


@fault(_BEGUN, harmless=True, in_group=True)
def replica_half_closed(scene: Scene) -> None:
    """A replica's side of all its connections ends (FIN), the other side does not."""
    for _ in range(4):
        scene.relays[scene.some_replica()].half_close()
        scene.work_on(0.25)


@fault("speed: a read waits until the replica is given up", harmless=True, in_group=True)
def replica_unreachable(scene: Scene) -> None:
    """Nothing reaches a replica or comes from it, and nobody is told; then all goes on."""
    relay = scene.relays[scene.some_replica()]
    relay.stall()
    scene.work_on()
    relay.heal()


@fault("speed: a read waits until the replica is given up", harmless=True, in_group=True)
def replica_swallowed(scene: Scene) -> None:
    """The same, and then its connections are reset."""
    relay = scene.relays[scene.some_replica()]
    relay.swallow()
    scene.work_on()
    relay.heal()


@fault("nothing: reads run elsewhere", harmless=True, in_group=True)
def replica_refused(scene: Scene) -> None:
    """The way to a replica is closed: connections are reset and refused."""
    relay = scene.relays[scene.some_replica()]
    relay.refuse()
    scene.work_on()
    relay.heal()


@fault("speed", harmless=True, in_group=True)
def replica_answers_late(scene: Scene) -> None:
    """What a replica sends arrives 0.3 s late; what is sent to it does not."""
    relay = scene.relays[scene.some_replica()]
    relay.delay(to_client=0.3)
    scene.work_on()
    relay.heal()


@fault(
    "sessions: each loses its connection, and does not know whether its last write was made",
    in_group=True,
)
def primary_connections_cut(scene: Scene) -> None:
    """Again and again all connections to the primary are reset."""
    for _ in range(4):
        scene.relays[scene.primary].cut()
        scene.work_on(0.25)


@fault(_PRIMARY_GONE, in_group=True)
def primary_unreachable(scene: Scene) -> None:
    """Nothing reaches the primary or comes from it, and nobody is told; then all goes on."""
    relay = scene.relays[scene.primary]
    with scene.cluster.primary_gone():
        relay.stall()
        scene.work_on()
        relay.heal()


@fault(_PRIMARY_GONE, in_group=True)
def primary_swallowed(scene: Scene) -> None:
    """The same, and then its connections are reset."""
    relay = scene.relays[scene.primary]
    with scene.cluster.primary_gone():
        relay.swallow()
        scene.work_on()
        relay.heal()


@fault("speed", harmless=True, in_group=True)
def primary_answers_late(scene: Scene) -> None:
    """What the primary sends arrives 0.2 s late; what is sent to it does not."""
    relay = scene.relays[scene.primary]
    relay.delay(to_client=0.2)
    scene.work_on()
    relay.heal()


@fault("speed", harmless=True, in_group=True)
def primary_hears_late(scene: Scene) -> None:
    """What is sent to the primary arrives 0.2 s late; what it sends does not."""
    relay = scene.relays[scene.primary]
    relay.delay(to_server=0.2)
    scene.work_on()
    relay.heal()
