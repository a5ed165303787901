"""One worker: its event loop, its signals, its routing log, and how it runs as a child process."""

import asyncio
import logging
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Final

import uvloop

from proxy import log
from proxy.config import Config, ConfigError
from proxy.error_text import error_text
from proxy.observe.log_upkeep import LogUpkeep
from proxy.observe.metrics import Metrics
from proxy.observe.routing_log import LogLimits, RoutingLog
from proxy.observe.snapshot import Snapshot
from proxy.state.sqlite_file import StateError
from proxy.tls.materials import KeyRing, Materials, build

Serve = Callable[
    [Config, Materials, Metrics, RoutingLog | None, int, asyncio.Event, Callable[[int], None]],
    Coroutine[object, object, None],
]
"""``serve(config, materials, metrics, routing_log, worker, stop, ready)``, see `proxy.serve`."""

SNAPSHOT: Final = "snapshot"
HEARTBEAT: Final = "heartbeat"
STOP: Final = "stop"
"""What the supervisor asks a child for."""


class Heartbeat:
    """The answer to a `HEARTBEAT`: the event loop has run."""


Report = int | str | Heartbeat | Snapshot
"""What a child tells the supervisor: the port that it listens on, once; then heartbeats, snapshots,
and why clients' writes cannot be served (`Metrics.trouble`), whenever that changes."""

CANNOT_SERVE: Final = 1
"""Exit status of a process that could not listen, or not use a file that it needs."""

_log = logging.getLogger(__name__)


class WorkerLoop:
    """The event loop of a worker, for other threads."""

    def __init__(self, loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
        self._loop = loop
        self._stop = stop

    def call(self, function: Callable[[], object]) -> None:
        """Have a function called by the loop, once it comes to that; never, if it has ended."""
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError:
            return  # the loop has ended, and with it the worker

    def stop(self) -> None:
        """Let the worker end gracefully."""
        self.call(self._stop.set)


def _nothing() -> None:
    return


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """Who is told of a worker's life, or that of several, and what stops it.

    Attributes:
        ready: called with the port when clients can connect.
        started: called once, with the worker's event loop.
        stopping: called when it has begun to stop.
        alive: called again and again while its event loop runs.
        alive_interval: how often, s; 0: never.
        signals: the signals that stop it.
    """

    ready: Callable[[int], None]
    started: Callable[[WorkerLoop], None] | None = None
    stopping: Callable[[], None] = _nothing
    alive: Callable[[], None] = _nothing
    alive_interval: float = 0.0
    signals: Sequence[signal.Signals] = (signal.SIGTERM, signal.SIGINT)


def run_worker(
    serve: Serve,
    config: Config,
    materials: Materials,
    metrics: Metrics,
    worker: int,
    lifecycle: Lifecycle,
) -> int:
    """Serve in this process until a signal or a call says stop; return the exit status.

    The first signal stops it gracefully, a second one at once.

    Args:
        serve: the proxy itself.
        config: the configuration.
        materials: keys and certificates.
        metrics: the worker's counts.
        worker: the number of this worker, from 0.
        lifecycle: who is told of its start, and what stops it.
    """

    async def main(routing_log: RoutingLog | None) -> None:
        stop = asyncio.Event()
        serving = asyncio.ensure_future(
            serve(config, materials, metrics, routing_log, worker, stop, lifecycle.ready)
        )
        _stop_on(lifecycle, stop, serving)
        await serving

    try:
        with _routing_log(config, metrics, worker) as routing_log:
            uvloop.run(main(routing_log))
    except OSError as error:
        addresses = ", ".join(map(str, config.addresses))
        _log.error("cannot serve on %s: %s", addresses, error_text(error))
        return CANNOT_SERVE
    except (StateError, _RoutingLogError) as error:
        _log.error("%s", error)
        return CANNOT_SERVE
    except asyncio.CancelledError:
        _log.warning("stopped at once by a second signal")
    return 0


class _RoutingLogError(Exception):
    """The routing log cannot be written."""


@contextmanager
def _routing_log(config: Config, metrics: Metrics, worker: int) -> Iterator[RoutingLog | None]:
    """A worker's routing log while it runs; None if there is to be none.

    Raises:
        _RoutingLogError: it cannot be written.
    """
    if config.routing_log is None:
        yield None
        return
    routing_log = RoutingLog(
        config.routing_log,
        config.proxy_name,
        worker,
        metrics,
        limits=LogLimits(sync_interval=config.routing_log_sync),
    )
    try:
        routing_log.start()
    except OSError as error:
        raise _RoutingLogError(f"routing-log {config.routing_log}: {error.strerror}") from error
    upkeep = None
    if worker == 0:  # it does this for all workers
        upkeep = LogUpkeep(
            config.routing_log,
            config.proxy_name,
            metrics,
            pack=config.routing_log_compression == "zstd",
            keep=config.routing_log_keep,
        )
        upkeep.start()
    try:
        yield routing_log
    finally:
        if upkeep is not None:
            upkeep.stop()
        routing_log.stop()


def _stop_on(lifecycle: Lifecycle, stop: asyncio.Event, serving: asyncio.Task[None]) -> None:
    """Let what may say stop end the worker that is `serving`."""
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        if stop.is_set():
            serving.cancel()
        else:
            lifecycle.stopping()
        stop.set()

    def show_life() -> None:
        lifecycle.alive()
        loop.call_later(lifecycle.alive_interval, show_life)

    for number in lifecycle.signals:
        loop.add_signal_handler(number, on_signal)
    if lifecycle.started is not None:
        lifecycle.started(WorkerLoop(loop, stop))
    if lifecycle.alive_interval:
        show_life()


def child(serve: Serve, config: Config, ring: KeyRing, worker: int, pipe: Connection) -> None:
    """Run a worker in a process of its own; `pipe` leads to the supervisor."""
    log.configure(config.log_level, config.log_format, worker)
    supervisor = _Supervisor(pipe)
    try:
        materials = build(config, ring)
    except ConfigError as error:  # a file has changed since the first process read it
        _log.error("%s", error)
        raise SystemExit(CANNOT_SERVE) from error
    # SIGINT, which a terminal sends to all processes, is the supervisor's.
    lifecycle = Lifecycle(supervisor.report, supervisor.listen, signals=(signal.SIGTERM,))
    raise SystemExit(run_worker(serve, config, materials, supervisor.metrics, worker, lifecycle))


class _Supervisor:
    """The supervisor, as a child sees it.

    Attributes:
        metrics: the child's counts, which it is told of.
    """

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._sending = threading.Lock()
        self.metrics = Metrics(self.report)

    def report(self, event: Report) -> None:
        """Tell it."""
        try:
            with self._sending:
                self._pipe.send(event)
        except OSError:
            _log.warning("the supervisor is gone")  # `_serve` sees the same and stops

    def listen(self, loop: WorkerLoop) -> None:
        """Do what it asks for, in a thread."""
        threading.Thread(target=self._serve, args=(loop,), name="supervisor", daemon=True).start()

    def _serve(self, loop: WorkerLoop) -> None:
        try:
            while (request := self._pipe.recv()) != STOP:
                self._answer(request, loop)
        except (EOFError, OSError):
            _log.warning("the supervisor is gone; stopping")
        loop.stop()
        # Scrapes go on until the end.
        try:
            while True:
                self._answer(self._pipe.recv(), loop)
        except (EOFError, OSError):
            return

    def _answer(self, request: object, loop: WorkerLoop) -> None:
        if request == SNAPSHOT:
            self.report(self.metrics.snapshot())
        elif request == HEARTBEAT:
            loop.call(lambda: self.report(Heartbeat()))
