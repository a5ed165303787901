"""Runs the proxy, in this process or in several workers, and serves its metrics."""

import asyncio
import dataclasses
import logging
import os
import platform
import resource
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from protocol import compiled
from proxy import log
from proxy.address import Address
from proxy.config import Config
from proxy.control.server import ControlServer
from proxy.listening_sockets import CannotServeError, ListeningSockets, activated
from proxy.observe.metrics import Metrics
from proxy.observe.metrics_server import MetricsServer, WorkersCollector
from proxy.reload import command as reload_command
from proxy.reload.answer import Answer
from proxy.reload.hangup import Hangup
from proxy.reload.reloader import CannotReloadError, Reloader
from proxy.reload.source import Change, Source
from proxy.serve import serve as serve_clients
from proxy.service_manager import ServiceManager
from proxy.shared.administration.every_worker import OneWorker, SeveralWorkers
from proxy.shared.administration.http_pages import AdministrationPages
from proxy.shared.administration.question import Answer as WorkerAnswer
from proxy.shared.administration.question import Question
from proxy.state import scope_memory, shared_client_counts
from proxy.state.scope_marks import disown
from proxy.state.sqlite_file import StateError, make_folder
from proxy.state.state_file import StateFile
from proxy.supervisor import CHANGE_TIMEOUT_S, DRAINING, NOT_SERVING, Supervisor
from proxy.tls.materials import KeyRing, build, make_key_ring
from proxy.version import VERSION
from proxy.worker import CANNOT_SERVE, Lifecycle, Serve, WorkerLoop, run_worker

_log = logging.getLogger(__name__)

_STDERR: Final = 2
_COUNTED: Final = frozenset({"max-connections", "kept-connections", "replicas"})
"""Options that decide how many open files there may be."""
_MOST_FOUND: Final = 8
"""How many replicas open files are counted for where they are found: a group has 9 members."""


class Reading(NamedTuple):
    """How the configuration is read anew.

    Attributes:
        read: reads it, or raises ConfigError.
        hangup: the signal that asks for that.
    """

    read: Callable[[], Config]
    hangup: Hangup


def run(config: Config, serve: Serve = serve_clients, reading: Reading | None = None) -> int:
    """Serve until a signal says stop; return the exit status.

    Args:
        config: the configuration.
        serve: the proxy itself.
        reading: how the configuration is read anew; None if that is not to be.

    Raises:
        ConfigError: a key or a certificate is unusable.

    """
    _open_standard_streams()
    log.configure(config.log_level, config.log_format)
    for warning in config.warnings():
        _log.warning("%s", warning)
    _raise_file_limit(config)
    ring = make_key_ring(config)
    build(config, ring)  # before any worker starts, so that an error shows once
    control_path = config.control_path
    given = config
    try:
        with _state_dir(config) as state_dir, _listening(config) as sockets:
            config = dataclasses.replace(config, state_dir=state_dir)
            start = _Start(given, config, ring, reading, control_path)
            if config.workers == 1:
                return _run_here(start, serve, sockets)
            return _run_supervised(start, serve, sockets)
    except (CannotServeError, StateError) as error:
        _log.error("%s", error)
        return CANNOT_SERVE


@dataclass(frozen=True, slots=True)
class _Start:
    """What a start begins with.

    Attributes:
        given: the configuration as it was read.
        config: what the start has made of it.
        ring: the keys.
        reading: how it is read anew.
        control_path: where the control socket is to be.
    """

    given: Config
    config: Config
    ring: KeyRing
    reading: Reading | None
    control_path: Path | None


@contextmanager
def _reloading(
    start: _Start, apply: Callable[[Change], list[str]], manager: ServiceManager
) -> Iterator[Callable[[], Answer] | None]:
    """Reload when somebody asks for it; gives what does so.

    Raises:
        CannotServeError: the control socket cannot be made.
    """
    if start.reading is None:
        yield None
        return
    source = Source(start.reading.read, start.given, start.config, start.ring)

    def apply_change(change: Change) -> list[str]:
        if not _COUNTED.isdisjoint(change.applied):
            _raise_file_limit(change.config)  # it is as high as it can be, and may be too low now
        return apply(change)

    reloader = Reloader(source, apply_change, manager)
    start.reading.hangup.call(reloader.request)
    if start.control_path is None:
        yield reloader.reload
        return
    commands = {reload_command.NAME: reload_command.answering(reloader.reload)}
    control = ControlServer(start.control_path, commands, lambda: False)
    try:
        control.start()
    except OSError as error:
        raise CannotServeError(f"control-socket {start.control_path}: {error.strerror}") from error
    try:
        yield reloader.reload
    finally:
        control.stop()


@contextmanager
def _state_dir(config: Config) -> Iterator[Path | None]:
    """The directory for who the primary is and what scopes require; None if there is none.

    Raises:
        StateError: a file there cannot be used.
    """
    folder = config.state_dir
    if folder is not None:
        make_folder(folder)
        with _prepared(folder, config):
            yield folder
    elif config.workers == 1:
        yield None
    else:
        try:
            temporary = TemporaryDirectory(prefix="tidegate-", ignore_cleanup_errors=True)
        except OSError as error:
            raise StateError(
                f"no temporary directory can be made for what workers share: {error.strerror}; name"
                " a directory in state-dir or TMPDIR that Tidegate may write"
            ) from error
        with temporary as name, _prepared(Path(name), config):
            yield Path(name)


@contextmanager
def _prepared(folder: Path, config: Config) -> Iterator[None]:
    """Make the files that all workers use before any worker starts, so that an error shows once."""
    if config.failover != "off":
        StateFile(folder).close()
    if config.workers == 1:
        yield
        return
    with scope_memory.own(folder):
        # A single worker's scope file does not get what several workers write from now on. If that
        # cannot be marked there, a later start cannot open the file, either.
        with suppress(OSError):
            disown(folder)
        scope_memory.make(folder, config.workers)
        shared_client_counts.make(folder, config.workers)
        yield


@contextmanager
def _listening(config: Config) -> Iterator[ListeningSockets]:
    """The sockets at which clients connect, for as long as the proxy runs.

    Raises:
        CannotServeError: an address cannot be used.
    """
    sockets = ListeningSockets()
    try:
        sockets.open(config, activated(os.environ))
        yield sockets
    finally:
        sockets.close()
        sockets.remove_file()


class _OnlyWorker:
    """The worker in this process, as other threads change its configuration.

    Attributes:
        listening: clients can connect.
        stops: it has begun to stop.
    """

    def __init__(self) -> None:
        self.listening = threading.Event()
        self.stops = threading.Event()
        self._loop: WorkerLoop | None = None

    def started(self, loop: WorkerLoop, reload: Callable[[], Answer] | None) -> None:
        """It runs in this event loop."""
        self._loop = loop
        if reload is not None:
            loop.live.reload = partial(asyncio.to_thread, reload)

    def change(self, change: Change) -> list[str]:
        """Put another configuration in place, once clients can connect; what went wrong.

        Raises:
            CannotReloadError: it stops, or does not come up.
        """
        if not self.listening.wait(CHANGE_TIMEOUT_S) or self._loop is None:
            raise CannotReloadError(NOT_SERVING)
        if self.stops.is_set():
            raise CannotReloadError(DRAINING)
        changed: SimpleQueue[str] = SimpleQueue()
        self._loop.change(change, changed.put)
        try:
            error = changed.get(timeout=CHANGE_TIMEOUT_S)
        except Empty:
            error = "the event loop does not answer; the configuration counts when it does"
        return [error] if error else []


def _run_here(start: _Start, serve: Serve, sockets: ListeningSockets) -> int:
    config = start.config
    metrics = Metrics()
    worker = _OnlyWorker()
    asked = OneWorker(lambda: metrics.answers)

    def started(loop: WorkerLoop) -> None:
        worker.started(loop, reload)
        asked.loop = loop

    def stopping() -> None:
        worker.stops.set()
        manager.stopping()

    def ready(port: int) -> None:
        worker.listening.set()
        _tell_ready(config, port, manager)

    def trouble() -> str:
        if metrics.draining:
            return DRAINING
        return metrics.trouble if worker.listening.is_set() else NOT_SERVING

    manager = ServiceManager(os.environ)
    lifecycle = Lifecycle(
        ready,
        started,
        stopping=stopping,
        alive=manager.alive,
        alive_interval=manager.watchdog_interval,
        sockets=sockets.of_worker(0, 1),
    )
    collector = WorkersCollector(lambda: {0: metrics.snapshot()}, lambda: 0, _build())
    with (
        _reloading(start, worker.change, manager) as reload,
        _serving_metrics(config, collector, trouble, asked, sockets),
    ):
        return run_worker(serve, config, start.ring, metrics, 0, lifecycle)


def _run_supervised(start: _Start, serve: Serve, sockets: ListeningSockets) -> int:
    config = start.config
    manager = ServiceManager(os.environ)
    lifecycle = Lifecycle(
        lambda port: _tell_ready(config, port, manager),
        stopping=manager.stopping,
        alive=manager.alive,  # as often as the workers owe a heartbeat
    )
    supervisor = Supervisor(config, start.ring, serve, lifecycle, sockets)
    collector = WorkersCollector(supervisor.snapshots, lambda: supervisor.restarts, _build())
    with (
        _reloading(start, supervisor.change, manager) as supervisor.reload,
        closing(SeveralWorkers(_folder(config), config.workers)) as several,
        _serving_metrics(config, collector, supervisor.trouble, several, sockets),
    ):
        return supervisor.run()


@contextmanager
def _serving_metrics(
    config: Config,
    collector: WorkersCollector,
    trouble: Callable[[], str],
    ask: Callable[[Question], Mapping[int, WorkerAnswer | None]],
    sockets: ListeningSockets,
) -> Iterator[None]:
    if config.metrics is None:
        yield
        return
    pages = AdministrationPages(ask, config.admin_token, config.workers)
    try:
        server = MetricsServer(config.metrics, collector, trouble, pages, sockets.for_metrics())
    except OSError as error:
        raise CannotServeError(f"metrics {config.metrics}: {error.strerror}") from error
    server.start()
    _log.info("metrics at http://%s/metrics", server.address)
    try:
        yield
    finally:
        server.stop()


def _build() -> tuple[str, str, str]:
    """What runs."""
    return VERSION, "true" if compiled() else "false", platform.python_version()


def _folder(config: Config) -> Path:
    if config.state_dir is None:
        raise StateError("several workers need a directory for what they share")
    return config.state_dir


def _tell_ready(config: Config, port: int, manager: ServiceManager) -> None:
    listen = Address(config.listen.host, port)
    at_socket = () if config.socket is None else (config.socket.absolute(),)
    addresses = " and ".join(map(str, (listen, *config.addresses[1:], *at_socket)))
    _log.info(
        "listening on %s (%s); primary %s, replicas %s",
        addresses,
        "1 worker" if config.workers == 1 else f"{config.workers} workers",
        config.primary,
        ", ".join(str(replica) for replica in config.replicas) or "none",
    )
    manager.ready(f"listening on {addresses}")


def _open_standard_streams() -> None:
    """Let no other file have their numbers: libuv ends a process where it closes such a file."""
    while (opened := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        os.set_inheritable(opened, True)  # by the workers
    os.close(opened)


def _raise_file_limit(config: Config) -> None:
    """Raise the limit of open files as far as the system allows; warn if that is not enough."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    servers = 1 + (len(config.replicas) if config.topology == "static" else _MOST_FOUND)
    wanted = config.max_connections * (1 + servers) + config.kept_connections * servers + 64
    if hard != resource.RLIM_INFINITY and hard < wanted:
        _log.warning(
            "max-connections %d may need %d open files; the limit is %d (ulimit -Hn)",
            config.max_connections,
            wanted,
            hard,
        )
