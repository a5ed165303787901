"""One worker from its start to its stop: makes what its sessions share, and serves."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from proxy import tasks
from proxy.client.listeners import Listeners
from proxy.config_changes import follow_changes
from proxy.drain import drain, end_of_logins
from proxy.handover.worker_part import WorkerPart
from proxy.monitor.liveness import Liveness
from proxy.monitor.monitor import Monitor
from proxy.monitor.name_watch import NameWatch
from proxy.observe.digests import Digests
from proxy.observe.ledger import Ledger
from proxy.observe.slow_log import SlowLog
from proxy.observe.traced_ledger import TracedLedger
from proxy.server.logins import Logins
from proxy.server.pool import Pool
from proxy.server.server_greeting import ServerGreeting
from proxy.server.slots import Slots
from proxy.shared.administration.administration import (
    NO_RELOAD,
    Administration,
    ReloadRefusedError,
)
from proxy.shared.administration.drain_server import ServerDrain
from proxy.shared.administration.drained_servers import DrainedServers
from proxy.shared.administration.worker_sockets import WorkerSockets
from proxy.shared.audits import Audits
from proxy.shared.catalogues import Catalogues
from proxy.shared.client_limits import ClientLimits
from proxy.shared.client_profile import ClientProfile
from proxy.shared.deadlines import Deadlines
from proxy.shared.executed_gtids import ExecutedGtids
from proxy.shared.idle_release import IdleRelease
from proxy.shared.idle_timeout import IdleTimeout
from proxy.shared.keepalive import Keepalive
from proxy.shared.killing.other_workers import OtherWorkers
from proxy.shared.killing.targets import KillTargets
from proxy.shared.known_passwords import KnownPasswords
from proxy.shared.memory_release import MemoryRelease, malloc_trim
from proxy.shared.primary_epoch import PrimaryEpoch
from proxy.shared.primary_presence import PrimaryPresence
from proxy.shared.probe import Probes
from proxy.shared.refusals import Refusals
from proxy.shared.sessions import Sessions
from proxy.shared.shared import Shared
from proxy.state import transaction_memory
from proxy.state.client_counts import ClientCounts
from proxy.state.kept_scopes import KeptScopes
from proxy.state.scope_memory import ScopeMemory, kept_flags
from proxy.state.shared_client_counts import SharedClientCounts
from proxy.state.shared_names import PLAIN
from proxy.state.sqlite_file import StateError
from routing.consistency.scope import Scopes
from routing.consistency.scope_board import is_flagged
from routing.consistency.sharing import Sharing
from routing.servers.topology import TABLES_LIMIT, Topology
from routing.servers.transaction_ring import RingReader, SharedTransactionTables
from routing.servers.waits import Waits
from routing.sql.classifier import Classifier

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from proxy.config import Config
    from proxy.live_config import LiveConfig
    from proxy.observe.metrics import Metrics
    from proxy.observe.routing_log import RoutingLog
    from proxy.state.shared_names import SharedNames
    from proxy.worker import Lifecycle
    from routing.record import RecordStream

_log = logging.getLogger(__name__)

_GC_THRESHOLDS: Final = (20_000, 20, 50)


def build(
    live: LiveConfig,
    metrics: Metrics,
    records: RecordStream | None,
    worker: int,
    names: SharedNames = PLAIN,
) -> Shared:
    """Make what the sessions of a worker share; `records` takes their routing records.

    `names` are those of what it shares with other workers.
    """
    config = live.config
    loop = asyncio.get_running_loop()
    topology = Topology(
        str(config.primary),
        [str(replica) for replica in config.replicas],
        config.primary_fallback_rate,
        config.proof_max_age,
        allows_filters=config.filtered_replicas == "allow",
        reads_lagging=config.on_max_lag == "stale",
        for_primary=config.for_primary,
    )
    topology.place(config.placement())
    digests = Digests() if config.statement_digests == "on" else None
    ledger = _ledger(config, metrics, records, digests, worker)
    for server in topology.servers:
        server.apply_listener = ledger
        metrics.server_known(server.name, server.role)
    scopes = Scopes(config.scope_limit, config.scope_age)
    sessions = Sessions(worker, metrics, scopes)
    kept_scopes: KeptScopes | None = None
    sharing: Sharing | None = None
    other_workers: OtherWorkers | None = None
    counts = ClientCounts()
    if config.workers > 1:
        counts = SharedClientCounts(_state_dir(config), config.workers, worker, names.clients)
        other_workers = OtherWorkers(
            _state_dir(config), config.workers, worker, config.connect_timeout, metrics, names
        )
        sharing = Sharing(ScopeMemory(_state_dir(config), config.workers, worker, names.scopes))
        scopes.share(sharing)
        _share_tables(topology, _state_dir(config), worker, names)
    elif config.state_dir is not None:
        flags = kept_flags(config.state_dir)
        scopes.remember_unlogged(lambda key: is_flagged(flags, key))
        kept_scopes = KeptScopes(
            config.state_dir, scopes, topology, config.scope_limit, metrics, time.monotonic
        )
    executed_gtids = ExecutedGtids(live, time.monotonic)
    pool = Pool(live, metrics, loop)
    slots = Slots(live, metrics, loop)
    server_drain = ServerDrain(
        DrainedServers(config.state_dir), topology, sessions, pool, loop.call_later
    )
    return Shared(
        live=live,
        worker=worker,
        metrics=metrics,
        ledger=ledger,
        # uvloop's own clock stands still during a turn of the loop, and counts whole milliseconds:
        # bounds that are computed from it would reach back too far.
        now=time.monotonic,
        call_later=loop.call_later,
        deadlines=Deadlines(time.monotonic, loop.call_later),
        start=tasks.start,
        topology=topology,
        scopes=scopes,
        sharing=sharing,
        kept_scopes=kept_scopes,
        sessions=sessions,
        other_workers=other_workers,
        kill_targets=KillTargets(sessions, topology, other_workers),
        primary_epoch=PrimaryEpoch(
            topology, sessions, executed_gtids, sharing, kept_scopes, ledger, metrics
        ),
        primary_presence=PrimaryPresence(topology, live, metrics, tasks.start, time.monotonic),
        probes=Probes(topology, sessions, ledger, metrics, config.connect_timeout, loop),
        waits=Waits(),
        pool=pool,
        slots=slots,
        logins=Logins(live, metrics, pool, slots),
        server_greeting=ServerGreeting(),
        client_limits=ClientLimits(live, counts, time.monotonic),
        client_profiles=ClientProfile(),
        known_passwords=KnownPasswords(),
        refusals=Refusals(metrics, time.monotonic),
        classifier=Classifier(),
        catalogues=Catalogues(live, metrics, tasks.start, loop, topology),
        audits=Audits(config.self_audit),
        administration=Administration(worker, topology, sessions, slots, server_drain, digests),
    )


def _share_tables(topology: Topology, folder: Path, worker: int, names: SharedNames) -> None:
    """Let the first worker tell the others what the primary's log says."""
    memory = transaction_memory.mapped(folder, names.tables)
    if worker == 0:
        topology.transaction_tables = SharedTransactionTables(TABLES_LIMIT, memory)
    else:
        topology.tables_reader = RingReader(memory, topology)


def _state_dir(config: Config) -> Path:
    if config.state_dir is None:
        raise StateError("several workers need a directory for what they share")
    return config.state_dir


def connection_count(shared: Shared) -> int:
    """How many connections there are, to clients and to servers; kept ones do not count."""
    to_servers = sum(map(shared.slots.count_of, shared.topology.servers))
    return len(shared.sessions) + shared.sessions.accepting + to_servers


def _ledger(
    config: Config,
    metrics: Metrics,
    records: RecordStream | None,
    digests: Digests | None,
    worker: int,
) -> Ledger:
    """What statements are entered in, and traced if that is switched on."""
    slow_log: SlowLog | None = None
    if config.slow_statement_time != "off":
        slow_log = SlowLog(round(config.slow_statement_time * 1e6), time.monotonic)
    name = config.proxy_name
    if not config.traces:
        return Ledger(metrics, records, name, digests, slow_log)
    from proxy.observe.tracer import Tracer, exporting

    tracer = Tracer(exporting(config.trace_endpoint), config.trace_sample, worker)
    return TracedLedger(metrics, records, name, digests, slow_log, tracer.statement, tracer.close)


async def _reload(live: LiveConfig) -> Sequence[str]:
    """Read the configuration anew, for all workers.

    Raises:
        ReloadRefusedError: it has errors, or nobody can read it here.
    """
    if live.reload is None:
        raise ReloadRefusedError(NO_RELOAD)
    answer = await live.reload()
    if answer.errors:
        raise ReloadRefusedError("; ".join(answer.errors))
    return answer.lines


async def serve(
    live: LiveConfig,
    metrics: Metrics,
    routing_log: RoutingLog | None,
    worker: int,
    stop: asyncio.Event,
    lifecycle: Lifecycle,
) -> None:
    """Serve clients until `stop` is set, and then until they have been let go.

    Args:
        live: the configuration that counts now.
        metrics: the worker's counts.
        routing_log: where records go, already started; None if there is no log.
        worker: its number, from 0.
        stop: set it to end.
        lifecycle: has what the worker begins with, and is told of its life.

    Raises:
        OSError: a socket cannot be listened on.
        StateError: the state directory cannot be used.
    """
    records = None if routing_log is None else routing_log.records
    start = lifecycle.start
    shared = build(live, metrics, records, worker, start.names)
    listeners = Listeners(shared)
    part = WorkerPart(shared, listeners, start.sockets, stop)
    part.begin(start.steps(live.config.workers))
    names = NameWatch(shared)
    monitor = Monitor(shared)
    idle_release = IdleRelease(live, shared.sessions)
    idle_timeout = IdleTimeout(live, shared.sessions, time.monotonic)
    follow_changes(
        shared, monitor, idle_release, idle_timeout
    )  # before anything waits: a change may come
    if shared.kept_scopes is not None:
        # before any client can write
        await shared.kept_scopes.start(beside_another=start.other is not None)
    if shared.other_workers is not None:
        await shared.other_workers.start(shared.kill_targets.answer)
        await shared.administration.start(
            WorkerSockets(_state_dir(live.config), start.names), live.config.workers
        )
    shared.administration.reload = partial(_reload, live)
    metrics.answers = shared.administration.answer_bytes
    names.start()
    await monitor.start()
    await shared.server_greeting.learn(shared.topology.primary, live.config, metrics)
    liveness = Liveness(shared)
    # Objects that exist now stay for good, and neither statements nor sessions leave reference
    # cycles behind: let the garbage collector look only at newer objects, and seldom.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    liveness.start()
    idle_release.start()
    idle_timeout.start()
    keepalive = Keepalive(shared.sessions)
    keepalive.start()
    memory_release = MemoryRelease(lambda: connection_count(shared), malloc_trim())
    memory_release.start()
    try:
        lifecycle.take_part(part)
        if start.waits:
            lifecycle.prepared()
            await part.wait_for_turn()
        if not stop.is_set():
            part.accept()
            lifecycle.ready(part.ports[0])
            where = ", ".join(map(str, part.ports))
            _log.info("worker %d (pid %d) listens on port %s", worker, os.getpid(), where)
        await stop.wait()
        metrics.draining = True
        if part.left:
            await end_of_logins(shared)
        elif part.accepting.is_set():
            await asyncio.sleep(live.config.drain_delay)
        listeners.stop()
        await drain(shared)
    finally:
        listeners.stop(with_admins=True)
        listeners.end_admins()
        await monitor.stop()
        await names.stop()
        await liveness.stop()
        await idle_release.stop()
        await idle_timeout.stop()
        await keepalive.stop()
        await memory_release.stop()
        await asyncio.to_thread(shared.ledger.close)
        if shared.other_workers is not None:
            shared.other_workers.stop()
            shared.administration.stop()
        if shared.kept_scopes is not None:
            await shared.kept_scopes.stop()
