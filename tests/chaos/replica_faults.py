"""What befalls replicas; the primary is well."""

import contextlib

from tests.chaos.scene import Scene, fault
from tests.chaos.sessions import TABLES, all_registers
from tests.real_mysql.server import RealServer

_BEGUN = "transactions that read there, and answers that had begun"
_NOTHING = "nothing: reads run elsewhere"
_SET = "UPDATE app.registers{} SET value = {} WHERE id = {}"
_HOLD = "SELECT * FROM registers{} WHERE id >= {} FOR SHARE"


@fault(_NOTHING, harmless=True)
def applier_stopped(scene: Scene) -> None:
    """A replica stops applying (STOP REPLICA SQL_THREAD), then the other one."""
    for replica in scene.cluster.replicas:
        with replica.applier_stopped():
            scene.work_on(0.5)


@fault(_NOTHING, harmless=True)
def receiver_stopped(scene: Scene) -> None:
    """A replica receives nothing any more (STOP REPLICA IO_THREAD)."""
    replica = scene.some_replica()
    replica.query("STOP REPLICA IO_THREAD")
    scene.work_on()
    replica.query("START REPLICA IO_THREAD")


@fault("speed: reads wait for their budget, then run on the primary", harmless=True)
def replicas_delayed(scene: Scene) -> None:
    """Both replicas apply everything a second late (SOURCE_DELAY = 1)."""
    for replica in scene.cluster.replicas:
        replica.set_source_delay(1)
    scene.work_on()
    for replica in scene.cluster.replicas:
        replica.set_source_delay(0)


@fault(_BEGUN, harmless=True)
def replica_killed(scene: Scene) -> None:
    """A replica is killed (SIGKILL) and started again."""
    replica = scene.some_replica()
    replica.kill()
    scene.work_on(0.5)
    scene.cluster.start(replica)
    scene.work_on(0.5)


@fault(_BEGUN, harmless=True)
def replica_restarted(scene: Scene) -> None:
    """One replica after the other is restarted in good order, as for an upgrade."""
    for replica in scene.cluster.replicas:
        replica.stop()
        scene.work_on(0.25)
        scene.cluster.start(replica)
        scene.work_on(0.25)


@fault("speed: a read waits until the replica is given up", harmless=True)
def replica_frozen(scene: Scene) -> None:
    """A replica's process stands still (SIGSTOP) and goes on: its connections stay open."""
    replica = scene.some_replica()
    replica.pause()
    scene.work_on()
    replica.resume()


@fault("speed: a read waits until the replicas are given up", harmless=True)
def all_replicas_frozen(scene: Scene) -> None:
    """Both replicas' processes stand still, for a moment and then for longer."""
    for share in (0.2, 0.8):
        for replica in scene.cluster.replicas:
            replica.pause()
        scene.work_on(share)
        for replica in scene.cluster.replicas:
            replica.resume()


@fault(_NOTHING, harmless=True, in_group=True)
def replica_offline(scene: Scene) -> None:
    """A replica sends its clients away (offline_mode = ON), as before maintenance."""
    replica = scene.some_replica()
    with scene.setting(replica, "offline_mode", "ON"):
        scene.work_on()


@fault(_NOTHING, harmless=True)
def replica_full(scene: Scene) -> None:
    """A replica takes no more connections (max_connections), and loses those that it has."""
    replica = scene.some_replica()
    with scene.setting(replica, "max_connections", "1"):
        replica.end_other_connections()
        scene.work_on()


@fault(
    "reads within `proof-max-age` of the loss, from the older data", harmless=True, bereaves=True
)
def replica_rebuilt_in_place(scene: Scene) -> None:
    """A replica gets older data under RESET BINARY LOGS AND GTIDS, without a restart.

    Connections to it stay. At no moment does it claim more than it has.
    """
    replica = scene.some_replica()
    replica.stop_applier()
    executed = replica.gtid_executed
    held = all_registers(replica)
    replica.start_applier()
    scene.work_on(0.3)
    with scene.quiet():
        replica.query("STOP REPLICA")
        replica.query("SET GLOBAL super_read_only = OFF")  # read_only stays on; root may pass it
        with scene.trial.bereaving():
            replica.query("RESET BINARY LOGS AND GTIDS")
        replica.query("SET sql_log_bin = 0")
        for register, value in held.items():
            replica.query(_SET.format(register % TABLES, value, register))
        replica.query("SET sql_log_bin = 1")
        replica.query("SET GLOBAL gtid_purged = %s", executed)
        replica.query("RESET REPLICA")
        replica.query("SET GLOBAL super_read_only = ON")
        scene.work_on(0.3)
    scene.work_on(0.2)
    replica.query("START REPLICA")
    scene.work_on(0.2)


@fault("speed at READ_ALL_WRITES, whose reads run on the primary", harmless=True)
def commit_order_given_up(scene: Scene) -> None:
    """Replicas stop keeping their source's order (replica_preserve_commit_order = OFF).

    Now and then a table's writes wait for a lock there, and others overtake them.
    """
    for replica in scene.cluster.replicas:
        _preserve_order(replica, "OFF")
    try:
        for table in range(TABLES):
            with contextlib.ExitStack() as stack:
                for replica in scene.cluster.replicas:
                    connection = stack.enter_context(contextlib.closing(replica.admin("app")))
                    connection.begin()
                    with connection.cursor() as cursor:
                        cursor.execute(_HOLD.format(table, scene.trial.register(0)))
                scene.work_on(0.2)
            scene.work_on(0.05)
    finally:
        for replica in scene.cluster.replicas:
            _preserve_order(replica, "ON")


def _preserve_order(replica: RealServer, setting: str) -> None:
    with replica.applier_stopped():
        replica.query(f"SET GLOBAL replica_preserve_commit_order = {setting}")
