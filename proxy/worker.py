"""One worker: its event loop, its signals, its routing log, and how it runs as a child process."""

import asyncio
import logging
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import CancelledError as FutureCancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Final

import uvloop

from proxy import log
from proxy.config import Config, ConfigError
from proxy.error_text import error_text
from proxy.handover.step import Step, StepDone
from proxy.handover.worker_part import WorkerPart
from proxy.handover.worker_start import WorkerStart
from proxy.live_config import LiveConfig
from proxy.observe.log_upkeep import LogUpkeep
from proxy.observe.metrics import Metrics
from proxy.observe.routing_log import LogLimits, RoutingLog
from proxy.observe.snapshot import Snapshot
from proxy.reload.answer import Answer
from proxy.reload.source import Change
from proxy.state.sqlite_file import StateError
from proxy.tls.materials import KeyRing, Materials, build, renew

SNAPSHOT: Final = "snapshot"
HEARTBEAT: Final = "heartbeat"
STOP: Final = "stop"
"""What the supervisor asks a child for."""


class Heartbeat:
    """The answer to a `HEARTBEAT`: the event loop has run."""


@dataclass(frozen=True, slots=True)
class Changed:
    """The answer to a `Change`: that counts now, unless there is an error."""

    error: str = ""


@dataclass(frozen=True, slots=True)
class ReloadWanted:
    """Somebody asked the child for a reload: all workers are to have it."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """The child could accept clients, and waits for its turn."""


Report = int | str | Heartbeat | Snapshot | Changed | ReloadWanted | Prepared | StepDone
"""What a child tells the supervisor: the port that it listens on, once; then heartbeats, snapshots,
answers to changes of the configuration, requests for a reload, steps of a hand-over that it has
done, and why clients' writes cannot be served (`Metrics.trouble`), whenever that changes."""

Request = str | Change | Answer | Step
"""What the supervisor tells a child: `SNAPSHOT`, `HEARTBEAT` or `STOP`; a change of the
configuration; what came of the reload that was asked for there; and a step of a hand-over."""

CANNOT_SERVE: Final = 1
"""Exit status of a process that could not listen, or not use a file that it needs."""

_log = logging.getLogger(__name__)


class WorkerLoop:
    """The event loop of a worker, for other threads.

    Attributes:
        live: its configuration.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, stop: asyncio.Event, live: LiveConfig, ring: KeyRing
    ) -> None:
        self.live = live
        self._loop = loop
        self._stop = stop
        self._ring = ring

    def change(self, change: Change, then: Callable[[str], None]) -> None:
        """Have the loop put another configuration in place; only one thread may call this.

        Args:
            change: the configuration.
            then: is called when that is done, with what went wrong, or "".
        """
        live = self.live
        try:
            materials = renew(live.materials, (live.config, self._ring), change.config, change.ring)
        except ConfigError as error:
            then(str(error))
            return
        self._ring = change.ring

        def put() -> None:
            try:
                live.change(change.config, materials)
            except Exception as error:  # a defect: whoever waits is told, and the log has the rest
                _log.exception("another configuration could not be put in place")
                then(error_text(error))
            else:
                then("")

        self.call(put)

    def call(self, function: Callable[[], object]) -> None:
        """Have a function called by the loop, once it comes to that; never, if it has ended."""
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError:
            return  # the loop has ended, and with it the worker

    def result(self, work: Coroutine[object, object, bytes], within: float) -> bytes | None:
        """What a coroutine gives, or None if it does not within so many seconds, or fails."""
        try:
            asked = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:  # the loop has ended
            work.close()
            return None
        try:
            return asked.result(within)
        except (TimeoutError, FutureCancelledError):
            asked.cancel()
            return None

    def stop(self) -> None:
        """Let the worker end gracefully."""
        self.call(self._stop.set)


def _nothing() -> None:
    return


_ALONE: Final = WorkerStart()


def _take_nothing(part: WorkerPart) -> None:
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
        start: what it begins with.
        prepared: called when it could accept clients, if it is to wait for its turn then.
        take_part: called with what does its part of hand-overs.
    """

    ready: Callable[[int], None]
    started: Callable[[WorkerLoop], None] | None = None
    stopping: Callable[[], None] = _nothing
    alive: Callable[[], None] = _nothing
    alive_interval: float = 0.0
    signals: Sequence[signal.Signals] = (signal.SIGTERM, signal.SIGINT)
    start: WorkerStart = _ALONE
    prepared: Callable[[], None] = _nothing
    take_part: Callable[[WorkerPart], object] = _take_nothing


Serve = Callable[
    [LiveConfig, Metrics, RoutingLog | None, int, asyncio.Event, Lifecycle],
    Coroutine[object, object, None],
]
"""`proxy.serve.serve`."""


def run_worker(
    serve: Serve,
    config: Config,
    ring: KeyRing,
    metrics: Metrics,
    worker: int,
    lifecycle: Lifecycle,
) -> int:
    """Serve in this process until a signal or a call says stop; return the exit status.

    The first signal stops it gracefully, a second one at once.

    Args:
        serve: the proxy itself.
        config: the configuration.
        ring: its keys.
        metrics: the worker's counts.
        worker: the number of this worker, from 0.
        lifecycle: who is told of its start, and what stops it.
    """

    async def main(routing_log: RoutingLog | None) -> None:
        stop = asyncio.Event()
        serving = asyncio.ensure_future(serve(live, metrics, routing_log, worker, stop, lifecycle))
        _stop_on(lifecycle, stop, serving)
        if lifecycle.started is not None:
            lifecycle.started(WorkerLoop(asyncio.get_running_loop(), stop, live, ring))
        await serving

    try:
        live = LiveConfig(config, build(config, ring))
        number = worker if config.workers > 1 else None
        live.follow(lambda before, _: follow_log_options(before, live.config, number))
        with _routing_log(live, metrics, worker) as routing_log:
            uvloop.run(main(routing_log))
    except OSError as error:
        addresses = ", ".join(map(str, config.addresses))
        _log.error("cannot serve on %s: %s", addresses, error_text(error))
        return CANNOT_SERVE
    except (ConfigError, StateError, _RoutingLogError) as error:
        _log.error("%s", error)
        return CANNOT_SERVE
    except asyncio.CancelledError:
        _log.warning("stopped at once by a second signal")
    return 0


def follow_log_options(before: Config, config: Config, worker: int | None) -> None:
    """Let this process's messages follow the options for them; `worker` as `log.configure` says."""
    if (before.log_level, before.log_format) != (config.log_level, config.log_format):
        log.configure(config.log_level, config.log_format, worker)


class _RoutingLogError(Exception):
    """The routing log cannot be written."""


@contextmanager
def _routing_log(live: LiveConfig, metrics: Metrics, worker: int) -> Iterator[RoutingLog | None]:
    """A worker's routing log while it runs; None if there is to be none.

    Raises:
        _RoutingLogError: it cannot be written.
    """
    config = live.config
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
            compression=config.routing_log_compression,
            keep=config.routing_log_keep,
        )
        upkeep.start()

    def on_change(_: Config, __: Materials) -> None:
        routing_log.configure(live.config.routing_log_sync)
        if upkeep is not None:
            upkeep.configure(
                compression=live.config.routing_log_compression,
                keep=live.config.routing_log_keep,
            )

    live.follow(on_change)
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
    if lifecycle.alive_interval:
        show_life()


def child(
    serve: Serve,
    config: Config,
    ring: KeyRing,
    worker: int,
    start: WorkerStart,
    pipe: Connection,
) -> None:
    """Run a worker in a process of its own; `pipe` leads to the supervisor."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the supervisor reads the configuration for all
    log.configure(config.log_level, config.log_format, worker)
    supervisor = _Supervisor(pipe)
    # SIGINT, which a terminal sends to all processes, is the supervisor's.
    lifecycle = Lifecycle(
        supervisor.report,
        supervisor.listen,
        signals=(signal.SIGTERM,),
        start=start,
        prepared=lambda: supervisor.report(Prepared()),
        take_part=supervisor.take_part,
    )
    raise SystemExit(run_worker(serve, config, ring, supervisor.metrics, worker, lifecycle))


class _Supervisor:
    """The supervisor, as a child sees it.

    Attributes:
        metrics: the child's counts, which it is told of.
    """

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._sending = threading.Lock()
        self._wanted: list[asyncio.Future[Answer]] = []  # of those who asked for a reload
        self._part: WorkerPart | None = None
        self._steps: list[Step] = []  # that came before it
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
        loop.live.reload = self._reload
        threading.Thread(target=self._serve, args=(loop,), name="supervisor", daemon=True).start()

    def take_part(self, part: WorkerPart) -> None:
        """Let `part` do the steps of hand-overs; called on the event loop."""
        self._part = part
        for step in self._steps:
            self._do(step)
        self._steps.clear()

    def _do(self, step: Step) -> None:
        if self._part is None:
            self._steps.append(step)
        else:
            self.report(self._part.act(step))

    def _serve(self, loop: WorkerLoop) -> None:
        try:
            while (request := self._receive()) != STOP:
                self._answer(request, loop)
        except (EOFError, OSError):
            _log.warning("the supervisor is gone; stopping")
        loop.stop()
        # Scrapes go on until the end.
        try:
            while True:
                self._answer(self._receive(), loop)
        except (EOFError, OSError):
            return

    async def _reload(self) -> Answer:
        """Ask for a reload, and wait for its end."""
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._wanted.append(answered)
        self.report(ReloadWanted())
        return await answered

    def _on_reloaded(self, answer: Answer) -> None:
        answered = self._wanted.pop(0)
        if not answered.done():
            answered.set_result(answer)

    def _receive(self) -> Request:
        request: Request = self._pipe.recv()
        return request

    def _answer(self, request: Request, loop: WorkerLoop) -> None:
        if request == SNAPSHOT:
            self.report(self.metrics.snapshot())
        elif request == HEARTBEAT:
            loop.call(lambda: self.report(Heartbeat()))
        elif isinstance(request, Change):
            loop.change(request, lambda error: self.report(Changed(error)))
        elif isinstance(request, Answer):
            loop.call(lambda: self._on_reloaded(request))
        elif isinstance(request, Step):
            loop.call(partial(self._do, request))
