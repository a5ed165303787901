"""Runs the proxy, in this process or in several workers, and serves its metrics."""

import dataclasses
import logging
import os
import platform
import resource
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple, Protocol

from protocol import compiled
from proxy import log
from proxy.address import Address
from proxy.config import Config, ConfigError
from proxy.control.connection import ControlConnection, ControlError, connect
from proxy.control.server import Command, ControlServer
from proxy.handover import successor
from proxy.handover.callbacks import HandOverCallbacks
from proxy.handover.hand_overs import HandOvers
from proxy.handover.messages import COMMAND as TAKE_OVER
from proxy.handover.state_files import StateFiles
from proxy.handover.step import Board
from proxy.handover.successor import TakeOver
from proxy.handover.worker_group import STEP_S, WorkerGroup
from proxy.listening_sockets import (
    CannotServeError,
    ListeningSockets,
    OpenSocket,
    Purpose,
    activated_sockets,
)
from proxy.observe.metrics import Metrics
from proxy.observe.metrics_server import Health, MetricsServer, WorkersCollector
from proxy.only_worker import OnlyWorker
from proxy.reload import command as reload_command
from proxy.reload.answer import Answer
from proxy.reload.hangup import Hangup
from proxy.reload.last_reload import LastReload
from proxy.reload.reloader import CannotReloadError, Reloader
from proxy.reload.source import Change, Source
from proxy.serve import serve as serve_clients
from proxy.service_manager import ServiceManager
from proxy.shared.administration.every_worker import OneWorker, SeveralWorkers
from proxy.shared.administration.http_pages import AdministrationPages
from proxy.shared.administration.question import Answer as WorkerAnswer
from proxy.shared.administration.question import Question
from proxy.state import scope_memory, shared_client_counts, transaction_memory
from proxy.state.scope_marks import disown
from proxy.state.shared_names import PLAIN, SharedNames, remove_others
from proxy.state.sqlite_file import StateError, make_folder
from proxy.state.state_file import StateFile
from proxy.supervisor import DRAINING, Supervisor
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


def run(
    config: Config,
    serve: Serve = serve_clients,
    reading: Reading | None = None,
    *,
    takes_over: bool = False,
) -> int:
    """Serve until a signal says stop; return the exit status.

    Args:
        config: the configuration.
        serve: the proxy itself.
        reading: how the configuration is read anew; None if that is not to be.
        takes_over: from the proxy that runs with the same state directory, if one does.

    Raises:
        ConfigError: a key or a certificate is unusable, or nothing can be taken over.

    """
    _open_standard_streams()
    log.configure(config.log_level, config.log_format)
    for warning in config.warnings():
        _log.warning("%s", warning)
    _raise_file_limit(config)
    ring = make_key_ring(config)
    build(config, ring)  # before any worker starts, so that an error shows once
    take_over: TakeOver | None = None
    try:
        if takes_over:
            take_over = _begin_take_over(config)
        with _state_files(config, take_over) as files, _listening(config, files) as sockets:
            start = _Start(
                config,
                dataclasses.replace(config, state_dir=files.folder),
                ring,
                reading,
                files,
                sockets,
            )
            return _run_here(start, serve) if config.workers == 1 else _run_supervised(start, serve)
    except (CannotServeError, ControlError, StateError) as error:
        _log.error("%s", error)
        if take_over is not None:
            take_over.give_up(str(error))
        return CANNOT_SERVE


@dataclass(frozen=True, slots=True)
class _Start:
    """What a start begins with.

    Attributes:
        given: the configuration as it was read.
        config: what the start has made of it.
        ring: the keys.
        reading: how it is read anew.
        files: what is in the state directory.
        sockets: where clients connect.
        last_reload: how the last reload went.
    """

    given: Config
    config: Config
    ring: KeyRing
    reading: Reading | None
    files: StateFiles
    sockets: ListeningSockets
    last_reload: LastReload = field(default_factory=LastReload)


def _begin_take_over(config: Config) -> TakeOver | None:
    if config.state_dir is None or config.control_path is None:
        raise ConfigError("--take-over needs state-dir, by which scopes are handed over")
    take_over = successor.begin(config.control_path, config.state_dir)
    if take_over is None:
        _log.info("no proxy listens at %s: nothing is taken over", config.control_path)
    else:
        _log.info("taking over from process %d", take_over.pid)
    return take_over


@contextmanager
def _state_files(config: Config, take_over: TakeOver | None) -> Iterator[StateFiles]:
    """What the proxy has in its state directory, for as long as it runs.

    Raises:
        StateError: a file there cannot be used.
    """
    folder = config.state_dir
    if folder is not None:
        make_folder(folder)
        with _prepared(folder, config, take_over) as files:
            yield files
    elif config.workers == 1:
        yield StateFiles()
    else:
        try:
            temporary = TemporaryDirectory(prefix="tidegate-", ignore_cleanup_errors=True)
        except OSError as error:
            raise StateError(
                f"no temporary directory can be made for what workers share: {error.strerror}; name"
                " a directory in state-dir or TMPDIR that Tidegate may write"
            ) from error
        with temporary as name, _prepared(Path(name), config, None) as files:
            yield files


@contextmanager
def _prepared(folder: Path, config: Config, take_over: TakeOver | None) -> Iterator[StateFiles]:
    """Make the files that all workers use before any worker starts, so that an error shows once."""
    if config.failover != "off":
        StateFile(folder).close()
    names = PLAIN if take_over is None else SharedNames.of_successor()
    if config.workers == 1:
        board: Board | None = None
        if take_over is not None:
            board = Board(names.scopes, 1)
            scope_memory.make(folder, 1, names.scopes)
        yield StateFiles(folder, take_over, names, board)
        return
    lock = scope_memory.FolderLock(folder)
    try:
        if take_over is None:
            lock.take()
        # A single worker's scope file does not get what several workers write from now on. If that
        # cannot be marked there, a later start cannot open the file, either.
        with suppress(OSError):
            disown(folder)
        scope_memory.make(folder, config.workers, names.scopes)
        shared_client_counts.make(folder, config.workers, names.clients)
        transaction_memory.make(folder, names.tables)
        if take_over is None:
            scope_memory.keep_only(folder, names.scopes)
            remove_others(folder, names, config.workers)
        yield StateFiles(folder, take_over, names, Board(names.scopes, config.workers), lock)
    finally:
        lock.release()


@contextmanager
def _listening(config: Config, files: StateFiles) -> Iterator[ListeningSockets]:
    """The sockets at which clients connect, for as long as the proxy runs.

    Raises:
        CannotServeError: an address cannot be used.
    """
    sockets = ListeningSockets()
    try:
        sockets.open(config, [*files.inherited_sockets, *activated_sockets(os.environ)])
        yield sockets
    finally:
        sockets.close()
        sockets.remove_file()


class _WorkerGroup(WorkerGroup, Protocol):
    """The workers, as the first process sees them."""

    def change(self, change: Change) -> list[str]:
        """Give all another configuration; what went wrong."""

    def stopping(self) -> bool:
        """Whether they stop."""


class _Operation:
    """What operators reach a proxy by: reloads, the control socket, metrics, hand-overs.

    Attributes:
        hand_overs: by which it starts, and ends.
        reload: reads the configuration anew; None if nobody can.
    """

    def __init__(self, start: _Start, group: _WorkerGroup, manager: ServiceManager) -> None:
        """Begin without serving.

        Args:
            start: what the start begins with.
            group: the workers.
            manager: is told.
        """
        self._start = start
        self._group = group
        self._manager = manager
        self._metrics: MetricsServer | None = None
        self._ready = threading.Event()  # clients can connect
        # A temporary directory is nobody else's: nothing can be handed over by it.
        files = dataclasses.replace(start.files, folder=start.given.state_dir)
        callbacks = HandOverCallbacks(
            self._sockets, self._accept, self._leave, group.stopping, manager.environment_of
        )
        self.hand_overs = HandOvers(files, start.given.workers, group, callbacks)
        self.reload: Callable[[], Answer] | None = None
        self._control: ControlServer | None = None
        commands: dict[str, Command] = {TAKE_OVER: self.hand_overs.hand_over}
        if start.reading is not None:
            source = Source(start.reading.read, start.given, start.config, start.ring)
            reloader = Reloader(source, self._apply, manager, start.last_reload)
            start.reading.hangup.call(reloader.request)
            self.reload = reloader.reload
            commands[reload_command.NAME] = reload_command.answering(reloader.reload)
        if start.given.control_path is not None:
            self._control = ControlServer(start.given.control_path, commands, group.stopping)

    @contextmanager
    def serving(
        self,
        collector: WorkersCollector,
        health: Health,
        ask: Callable[[Question], Mapping[int, WorkerAnswer | None]],
    ) -> Iterator[None]:
        """Serve meanwhile; who takes over begins with that once it accepts the clients.

        Raises:
            CannotServeError: an address or the control socket cannot be used.
        """
        config, sockets = self._start.config, self._start.sockets
        try:
            if config.metrics is not None:
                pages = AdministrationPages(ask, config.admin_token, config.workers)
                try:
                    self._metrics = MetricsServer(
                        config.metrics, collector, health, pages, sockets.for_metrics()
                    )
                except OSError as error:
                    raise CannotServeError(f"metrics {config.metrics}: {error.strerror}") from error
            if self._start.files.take_over is None:
                self._listen()
                self._serve_metrics()
            yield
        finally:
            if self._control is not None:
                self._control.stop()
            if self._metrics is not None:
                self._metrics.stop()

    def ready(self, port: int) -> None:
        """Clients can connect."""
        self._tell_ready(port)
        self._ready.set()
        self.hand_overs.ready()

    def _apply(self, change: Change) -> list[str]:
        if pid := self.hand_overs.successor:
            raise CannotReloadError(
                f"process {pid} is taking over, and has read the configuration itself: ask"
                " again when it serves"
            )
        if not _COUNTED.isdisjoint(change.applied):
            _raise_file_limit(change.config)  # it is as high as it can be, and may be too low now
        return self._group.change(change)

    def _listen(self) -> None:
        """Begin with the control socket, unless it is that of another proxy."""
        control, path = self._control, self._start.given.control_path
        if control is None or path is None:
            return
        other: ControlConnection | None = None
        try:
            other = connect(path)
        except ControlError as error:
            _log.warning("%s", error)
        if other is not None:
            other.close()
            if not other.stopping:
                _log.warning(
                    "this process has no control socket: process %d has %s; each proxy needs a"
                    " control-socket and a state-dir of its own",
                    other.peer_pid,
                    path,
                )
                return
        try:
            control.start()
        except OSError as error:
            raise CannotServeError(f"control-socket {path}: {error.strerror}") from error

    def _serve_metrics(self) -> None:
        if self._metrics is not None:
            self._metrics.start()
            _log.info("metrics at http://%s/metrics", self._metrics.address)

    def _tell_ready(self, port: int) -> None:
        config = self._start.config
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
        self._manager.ready(f"listening on {addresses}")

    # Hand-overs

    def _sockets(self) -> list[OpenSocket]:
        """All listening sockets, for a successor."""
        found = [*self._start.sockets.all()]
        address = self._start.given.metrics
        if self._metrics is not None and address is not None:
            found = [each for each in found if each.purpose is not Purpose.METRICS]
            found.append(OpenSocket(Purpose.METRICS, str(address), self._metrics.listening))
        return found

    def _accept(self) -> None:
        """This process accepts the clients in its predecessor's place."""
        self._start.sockets.set_socket_mode()
        self._ready.wait(STEP_S)  # the workers accept, and say so at once: `/readyz` needs to know
        self._serve_metrics()
        try:
            if self._control is not None:
                self._control.start()
        except OSError as error:
            path = self._start.given.control_path
            _log.error("control-socket %s: %s", path, error.strerror)
        # What it said before it was the service's main process was not heard.
        self._manager.ready(f"took over; listening on port {self._start.sockets.port}")
        self._manager.alive()

    def _leave(self, successor: int) -> None:
        """A successor accepts the clients in this process's place."""
        self._manager.relieved_by(successor)
        if self._metrics is not None:
            self._metrics.stop()


def _run_here(start: _Start, serve: Serve) -> int:
    config = start.config
    metrics = Metrics()
    worker = OnlyWorker()
    asked = OneWorker(lambda: metrics.answers)

    def started(loop: WorkerLoop) -> None:
        worker.started(loop, operation.reload)
        asked.loop = loop

    def stopping() -> None:
        worker.stops.set()
        manager.stopping()

    def ready(port: int) -> None:
        worker.listening.set()
        operation.ready(port)

    def trouble() -> str:
        if worker.left:
            return ""  # who asks at this address is served by the successor
        return DRAINING if metrics.draining else worker.trouble() or metrics.trouble

    manager = ServiceManager(os.environ | start.files.inherited_environment)
    operation = _Operation(start, worker, manager)
    lifecycle = Lifecycle(
        ready,
        started,
        stopping=stopping,
        alive=manager.alive,
        alive_interval=manager.watchdog_interval,
        start=dataclasses.replace(start.files.worker_start, sockets=start.sockets.of_worker(0, 1)),
        prepared=operation.hand_overs.prepared,
        take_part=worker.take_part,
    )
    collector = WorkersCollector(
        lambda: {0: metrics.snapshot()}, lambda: 0, _build(), start.last_reload
    )
    with operation.serving(collector, Health(trouble, worker.stuck), asked):
        status = run_worker(serve, config, start.ring, metrics, 0, lifecycle)
    return CANNOT_SERVE if worker.failed else status


def _run_supervised(start: _Start, serve: Serve) -> int:
    config = start.config
    manager = ServiceManager(os.environ | start.files.inherited_environment)

    def ready(port: int) -> None:
        operation.ready(port)

    def prepared() -> None:
        operation.hand_overs.prepared()

    lifecycle = Lifecycle(
        ready,
        stopping=manager.stopping,
        alive=manager.alive,  # as often as the workers owe a heartbeat
        start=start.files.worker_start,
        prepared=prepared,
    )
    supervisor = Supervisor(config, start.ring, serve, lifecycle, start.sockets)
    operation = _Operation(start, supervisor, manager)
    supervisor.reload = operation.reload
    collector = WorkersCollector(
        supervisor.snapshots, lambda: supervisor.restarts, _build(), start.last_reload
    )
    with (
        closing(SeveralWorkers(_folder(config), config.workers, start.files.names)) as several,
        operation.serving(collector, Health(supervisor.trouble), several),
    ):
        return supervisor.run()


def _build() -> tuple[str, str, str]:
    """What runs."""
    return VERSION, "true" if compiled() else "false", platform.python_version()


def _folder(config: Config) -> Path:
    if config.state_dir is None:
        raise StateError("several workers need a directory for what they share")
    return config.state_dir


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
