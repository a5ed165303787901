"""One worker: its event loop, its signals, its routing log, and how it runs as a child process."""

import asyncio
import logging
import signal
import threading
from collections.abc import Callable, Coroutine, Sequence
from multiprocessing.connection import Connection
from typing import Final

import uvloop

from proxy import log
from proxy.config import Config, ConfigError
from proxy.observe.log_upkeep import LogUpkeep
from proxy.observe.metrics import Metrics
from proxy.observe.routing_log import LogLimits, RoutingLog
from proxy.observe.snapshot import Snapshot
from proxy.state.sqlite_file import StateError
from proxy.tls import KeyRing, Materials, build

Serve = Callable[
    [Config, Materials, Metrics, RoutingLog | None, int, asyncio.Event, Callable[[int], None]],
    Coroutine[object, object, None],
]
"""``serve(config, materials, metrics, routing_log, worker, stop, ready)``, see `proxy.serve`."""

SNAPSHOT: Final = "snapshot"
STOP: Final = "stop"
"""What the supervisor asks a child for."""

Report = int | str | Snapshot
"""What a child tells the supervisor: the port that it listens on, once; then snapshots, and why
clients' writes cannot be served (`Metrics.trouble`), whenever that changes."""

CANNOT_SERVE: Final = 1
"""Exit status of a process that could not listen, or not use a file that it needs."""

_log = logging.getLogger(__name__)


def run_worker(
    serve: Serve,
    config: Config,
    materials: Materials,
    metrics: Metrics,
    worker: int,
    ready: Callable[[int], None],
    started: Callable[[Callable[[], None]], None] | None = None,
    signals: Sequence[signal.Signals] = (signal.SIGTERM, signal.SIGINT),
) -> int:
    """Serve in this process until a signal or a call says stop; return the exit status.

    The first signal stops it gracefully, a second one at once.

    Args:
        serve: the proxy itself.
        config: the configuration.
        materials: keys and certificates.
        metrics: the worker's counts.
        worker: the number of this worker, from 0.
        ready: called with the port when clients can connect.
        started: called once with a function that stops the worker from any thread.
        signals: the signals that stop it.

    """
    routing_log = None
    upkeep = None
    if config.routing_log is not None:
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
            _log.error("routing-log %s: %s", config.routing_log, error.strerror)
            return CANNOT_SERVE
        if worker == 0:  # it does this for all workers
            upkeep = LogUpkeep(
                config.routing_log,
                config.proxy_name,
                metrics,
                pack=config.routing_log_compression == "zstd",
                keep=config.routing_log_keep,
            )
            upkeep.start()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        serving = asyncio.ensure_future(
            serve(config, materials, metrics, routing_log, worker, stop, ready)
        )

        def on_signal() -> None:
            if stop.is_set():
                serving.cancel()
            stop.set()

        for number in signals:
            loop.add_signal_handler(number, on_signal)
        if started is not None:
            started(lambda: _call_threadsafe(loop, stop.set))
        await serving

    try:
        uvloop.run(main())
    except OSError as error:
        addresses = ", ".join(map(str, config.addresses))
        _log.error("cannot serve on %s: %s", addresses, error)
        return CANNOT_SERVE
    except StateError as error:
        _log.error("%s", error)
        return CANNOT_SERVE
    except asyncio.CancelledError:
        _log.warning("stopped at once by a second signal")
    finally:
        if upkeep is not None:
            upkeep.stop()
        if routing_log is not None:
            routing_log.stop()
    return 0


def child(serve: Serve, config: Config, ring: KeyRing, worker: int, pipe: Connection) -> None:
    """Run a worker in a process of its own; `pipe` leads to the supervisor."""
    log.configure(config.log_level, worker)
    sending = threading.Lock()

    def report(what: Report) -> None:
        try:
            with sending:
                pipe.send(what)
        except OSError:
            _log.warning("the supervisor is gone")  # `listen` sees the same and stops

    metrics = Metrics(report)

    def listen(stop: Callable[[], None]) -> None:
        try:
            while (request := pipe.recv()) != STOP:
                if request == SNAPSHOT:
                    report(metrics.snapshot())
        except (EOFError, OSError):
            _log.warning("the supervisor is gone; stopping")
        stop()
        # Scrapes go on until the end.
        try:
            while True:
                if pipe.recv() == SNAPSHOT:
                    report(metrics.snapshot())
        except (EOFError, OSError):
            return

    def started(stop: Callable[[], None]) -> None:
        threading.Thread(target=listen, args=(stop,), name="supervisor", daemon=True).start()

    try:
        materials = build(config, ring)
    except ConfigError as error:  # a file has changed since the first process read it
        _log.error("%s", error)
        raise SystemExit(CANNOT_SERVE) from error
    raise SystemExit(
        run_worker(serve, config, materials, metrics, worker, report, started, (signal.SIGTERM,))
    )


def _call_threadsafe(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(call)
    except RuntimeError:
        return  # the loop has already ended, and with it the worker that was to be stopped
