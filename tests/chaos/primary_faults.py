"""What befalls the primary, and what befalls all servers."""

import contextlib
import time

import pymysql

from tests.chaos.clients import OTHER_PASSWORD, OTHER_USER
from tests.chaos.scene import Scene, fault
from tests.real_mysql.server import RealServer

_PRIMARY_GONE = (
    "writes, sessions that have something there, and reads that need the primary, for as long as it"
    " lasts"
)
_CLIENTS = (
    "SELECT id FROM performance_schema.processlist WHERE user IN ('app', 'app2', 'monitor')"
    " ORDER BY RAND() LIMIT 2"
)


@fault("nothing", harmless=True, in_group=True)
def calm(scene: Scene) -> None:
    """Nothing goes wrong, for comparison."""
    scene.work_on()


@fault(_PRIMARY_GONE)
def primary_frozen(scene: Scene) -> None:
    """The primary's process stands still (SIGSTOP) and goes on: its connections stay open."""
    with scene.cluster.primary_gone():
        scene.primary.pause()
        scene.work_on()
        scene.primary.resume()


@fault(_PRIMARY_GONE)
def primary_killed(scene: Scene) -> None:
    """The primary is killed (SIGKILL) and started again, with all that it had."""
    with scene.cluster.primary_gone():
        scene.primary.kill()
        scene.work_on(0.3)
        scene.cluster.start(scene.primary)
    scene.work_on(0.7)


@fault("writes, and reads that need the primary: STRONG, and what no replica has proved to show")
def primary_away(scene: Scene) -> None:
    """The primary is killed (SIGKILL) and stays away for 30 seconds, while clients read.

    No write is under way: a scope with one cannot be read before the primary says if it was made.
    """
    with scene.cluster.primary_gone(), scene.quiet():
        scene.primary.kill()
        before = scene.watch.answered(scene.cluster.replicas)
        with scene.trial.without_primary():
            time.sleep(30)
        after = scene.watch.answered(scene.cluster.replicas)
        if not all(count > had for had, count in zip(before, after, strict=True)):
            raise AssertionError(f"a replica answered nothing: {before}, then {after}")
        scene.cluster.start(scene.primary)
    scene.work_on(0.7)


@fault(
    "the writes that are gone, and that a scope is told of all of them: see `on-lost-writes`",
    needs_monitor=True,
)
def primary_restored(scene: Scene) -> None:
    """The primary comes back from an older copy and gives the lost GTIDs to new writes.

    Its replicas have the lost ones, and skip the new ones of the same name. They are made anew at
    the end.
    """
    cluster, primary = scene.cluster, scene.primary
    with contextlib.ExitStack() as stack:
        with cluster.primary_gone():
            folder = stack.enter_context(cluster.backup(primary))
        scene.work_on(0.3)
        with scene.trial.losing(), cluster.primary_gone():
            primary.create(folder)
            cluster.start(primary)
    for _ in range(4):
        scene.work_on(0.2)
        for replica in cluster.replicas:  # refused as long as it has more than its source
            replica.query("STOP REPLICA")
            replica.query("START REPLICA")
    scene.work_on(0.2)
    for replica in cluster.replicas:
        cluster.rebuild(replica)


@fault("writes: they fail with 1290")
def primary_read_only(scene: Scene) -> None:
    """The primary takes no writes (super_read_only = ON), and nobody else does."""
    with contextlib.ExitStack() as stack:
        stack.callback(scene.primary.query, "SET GLOBAL read_only = OFF")
        stack.enter_context(scene.setting(scene.primary, "super_read_only", "ON"))
        scene.work_on()


@fault("new sessions: they fail with 1040")
def primary_full(scene: Scene) -> None:
    """The primary takes no more connections (max_connections), and some of its own end."""
    with scene.setting(scene.primary, "max_connections", "1"):
        for _ in range(4):
            _kill_some(scene.primary)
            scene.work_on(0.25)


@fault("speed of writes", harmless=True, in_group=True)
def commits_delayed(scene: Scene) -> None:
    """The primary gathers commits for 50 ms (binlog_group_commit_sync_delay)."""
    with scene.setting(scene.primary, "binlog_group_commit_sync_delay", "50000"):
        scene.work_on()


@fault(
    "speed of writes; a session whose write waits goes on waiting",
    harmless=True,
    needs_semi_sync=True,
)
def semi_sync_waits(scene: Scene) -> None:
    """The primary waits for acknowledgements that do not come (semi-sync, AFTER_SYNC).

    Meanwhile a replica shows what the primary does not show yet.
    """
    primary, (acknowledging, _) = scene.primary, scene.cluster.replicas
    with contextlib.ExitStack() as stack:
        stack.enter_context(scene.setting(acknowledging, "rpl_semi_sync_replica_enabled", "ON"))
        acknowledging.query("STOP REPLICA IO_THREAD")
        acknowledging.query("START REPLICA IO_THREAD")
        for name, value in (("wait_for_replica_count", "2"), ("timeout", "600")):
            stack.enter_context(scene.setting(primary, f"rpl_semi_sync_source_{name}", value))
        for _ in range(8):  # having waited in vain, it waits no more until it is told to again
            with scene.setting(primary, "rpl_semi_sync_source_enabled", "ON"):
                scene.work_on(0.125)


@fault("sessions: those whose connection to the primary is killed end", in_group=True)
def connections_killed(scene: Scene) -> None:
    """Again and again a few connections of the proxy are killed (KILL), on any server."""
    for _ in range(20):
        _kill_some(scene.chance.choice(scene.cluster.servers))
        scene.work_on(0.05)


def _kill_some(server: RealServer) -> None:
    for (connection,) in server.query(_CLIENTS):
        with contextlib.suppress(pymysql.err.MySQLError):  # gone by itself
            server.query(f"KILL {connection}")


@fault("logins while replicas do not know the new password yet, on these replicas", in_group=True)
def accounts_altered(scene: Scene) -> None:
    """Passwords change, and servers forget whom they know (ALTER USER, FLUSH PRIVILEGES)."""
    alter = f"ALTER USER {OTHER_USER}@'%' IDENTIFIED BY '{{}}'"
    for password in ("another-secret", "a-third-secret", OTHER_PASSWORD):
        scene.primary.query(alter.format(password))
        scene.accounts.passwords[OTHER_USER] = password
        for server in scene.cluster.servers:
            server.query("FLUSH LOCAL PRIVILEGES")
            _kill_some(server)
        scene.work_on(0.33)
