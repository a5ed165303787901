"""Several worker processes that share the port by SO_REUSEPORT, and the supervisor that watches.

The supervisor serves no client: it holds the port, the keys and the metrics address, and handles
the signals. A worker that dies is started again, after a pause that doubles while it keeps dying.
If a worker dies before all have come up, the whole proxy stops, since the cause would most likely
stop the worker again. Workers whose supervisor dies see the pipe close and stop.

A worker whose process was stopped, or whose event loop hangs, would go on being given its share of
the new connections, and never answer them. So each worker is asked for a heartbeat again and again,
which its event loop answers. One that leaves it unanswered for too long is killed, and started
again like one that died. What counts are the supervisor's looks, and not the time: if the whole
machine stood still, nobody had time to answer.
"""

import dataclasses
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Final

from proxy.config import Config
from proxy.error_text import error_text
from proxy.handover.step import Step, StepDone, StepError, StepKind
from proxy.handover.worker_group import STEP_S
from proxy.handover.worker_start import WorkerStart
from proxy.listening_sockets import ListeningSockets
from proxy.observe.snapshot import Snapshot
from proxy.reload.answer import Answer
from proxy.reload.reloader import CannotReloadError
from proxy.reload.source import Change
from proxy.tls.materials import KeyRing
from proxy.worker import (
    CANNOT_SERVE,
    HEARTBEAT,
    SNAPSHOT,
    STOP,
    Changed,
    Heartbeat,
    Lifecycle,
    Prepared,
    ReloadWanted,
    Report,
    Request,
    Serve,
    child,
    follow_log_options,
)

SCRAPE_TIMEOUT_S: Final = 2.0
STOP_SLACK_S: Final = 25.0
"""How long workers may take to stop after all sessions have ended: files are written."""
DRAINING: Final = "this proxy is stopping: it lets its sessions go"
NOT_SERVING: Final = "no worker takes clients"
FIRST_PAUSE_S: Final = 0.5
LAST_PAUSE_S: Final = 30.0
LONG_LIFE_S: Final = 60.0
"""For a worker that lived this long, the pauses begin with the first one again."""
CHANGE_TIMEOUT_S: Final = 30.0
"""How long workers may take to come up, and to put another configuration in place."""
HEARTBEAT_INTERVAL_S: Final = 1.0
MISSED_HEARTBEATS: Final = 10
"""After so many looks without a heartbeat a worker is killed."""

_log = logging.getLogger(__name__)


class ChildWorker:
    """One worker process after another, under one number."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.process: SpawnProcess | None = None
        self.port = 0  # it listens there; 0: not yet
        self.came_up = False  # it has listened, be it in a process that has ended
        self.trouble = ""  # why clients' writes cannot be served there
        self.restart_at: float | None = None
        self.reloads_wanted = 0  # asked for there, and not passed on yet
        self.prepared = False  # it could accept clients
        self.steps_done: SimpleQueue[StepDone] = SimpleQueue()
        self._steps_under_way: list[StepKind] = []
        self._pipe: Connection | None = None
        self._beating = True  # it has answered since it was asked for a heartbeat
        self._missed = 0  # looks since then
        self._started_at = 0.0
        self._pause = FIRST_PAUSE_S
        # The metrics server's threads ask, the supervising thread receives.
        self._sending = threading.Lock()
        self._asked = False
        self._answered = threading.Event()
        self._snapshot: Snapshot | None = None
        self._changing: list[Callable[[str], None]] = []  # told how each change went

    def start(self, serve: Serve, config: Config, ring: KeyRing, start: WorkerStart) -> None:
        """Start a process, which inherits its sockets; it sends the port that it listens on.

        Raises:
            OSError: the system lets no process be started now.
        """
        context = multiprocessing.get_context("spawn")
        self.restart_at = None
        self._started_at = time.monotonic()
        pipe, far_end = context.Pipe()
        process = context.Process(
            target=child,
            args=(serve, config, ring, self.number, start, far_end),
            name=f"worker {self.number}",
            daemon=True,
        )
        try:
            _start_unsignalled(process)
        except OSError:
            pipe.close()
            raise
        finally:
            far_end.close()
        self.process = process
        self._beating, self._missed = True, 0
        with self._sending:
            self._pipe, self._asked = pipe, False

    def handles(self) -> list[Connection | int]:
        """Handles that become ready when `receive` has something to take, or the process ends."""
        if self.process is None:
            return []
        return (
            [self.process.sentinel] if self._pipe is None else [self._pipe, self.process.sentinel]
        )

    def receive(self) -> None:
        """Take what the process has sent, without waiting."""
        try:
            while self._pipe is not None and self._pipe.poll():
                self._take(self._pipe.recv())
        except (EOFError, OSError):
            self._close_pipe()

    def _take(self, report: Report) -> None:
        if isinstance(report, int):
            self.port, self.came_up = report, True
        elif isinstance(report, str):
            self.trouble = report
        elif isinstance(report, Heartbeat):
            self._beating = True
        elif isinstance(report, Changed):
            if self._changing:
                self._changing.pop(0)(report.error)
        elif isinstance(report, ReloadWanted):
            self.reloads_wanted += 1
        elif isinstance(report, Prepared):
            self.prepared = True
        elif isinstance(report, StepDone):
            self._steps_under_way.remove(report.kind)
            self.steps_done.put(report)
        else:
            self._snapshot, self._asked = report, False
            self._answered.set()

    def ended(self) -> int | None:
        """Return the exit status of a process that has ended, and forget the process."""
        if self.process is None or self.process.exitcode is None:
            return None
        self.receive()  # what it has sent last
        status = self.process.exitcode
        self.process.close()
        self.process, self.port, self.trouble = None, 0, ""
        self.prepared = False
        self._close_pipe()
        return status

    def plan_restart(self) -> float:
        """Choose when to start it again; return the pause before it in seconds."""
        now = time.monotonic()
        if now - self._started_at >= LONG_LIFE_S:
            self._pause = FIRST_PAUSE_S
        pause = self._pause
        self.restart_at = now + pause
        self._pause = min(2 * pause, LAST_PAUSE_S)
        return pause

    def change(self, change: Change, then: Callable[[str], None]) -> None:
        """Give the process another configuration.

        Args:
            change: the configuration.
            then: is called once: with what went wrong, or "" if nothing did. One that ends is
                started again with that configuration.
        """
        self._changing.append(then)
        if not self._send(change):
            self._forget_changes()

    def reloaded(self, answer: Answer) -> None:
        """Tell the process what came of a reload that it wanted."""
        self._send(answer)

    def _forget_changes(self) -> None:
        changing, self._changing = self._changing, []
        for then in changing:
            then("")

    def act(self, step: Step) -> None:
        """Have the process do a step; `steps_done` gets it.

        One that has ended has done it: it is started again as the steps want it.
        """
        self._steps_under_way.append(step.kind)
        if not self._send(step):
            self._forget_steps()

    def _forget_steps(self) -> None:
        while self._steps_under_way:
            self.steps_done.put(StepDone(self._steps_under_way.pop(0)))

    def stop(self) -> None:
        """Ask the process to end gracefully."""
        if not self._send(STOP) and self.process is not None:
            self.process.terminate()

    def kill(self) -> bool:
        """End the process at once, if there is one."""
        if self.process is None:
            return False
        self.process.kill()
        return True

    def hangs(self) -> bool:
        """Ask the process for a heartbeat; return whether it has missed too many of them.

        A process that does not listen yet is not asked.
        """
        if not self.port:
            return False
        if not self._beating:
            self._missed += 1
            hangs = self._missed >= MISSED_HEARTBEATS
            self._missed %= MISSED_HEARTBEATS
            return hangs
        self._beating, self._missed = False, 0
        self._send(HEARTBEAT)
        return False

    def ask(self) -> None:
        """Ask the process for a snapshot, unless an earlier question is open."""
        if self._asked:
            return
        self._snapshot = None
        self._answered.clear()
        self._asked = self.port != 0  # before it is sent: the answer may come at once
        if self._asked and not self._send(SNAPSHOT):
            self._asked = False

    def answer(self, timeout: float) -> Snapshot | None:
        """Wait for the answer to `ask`."""
        if self._asked:
            self._answered.wait(max(timeout, 0))
        return self._snapshot

    def _send(self, request: Request) -> bool:
        with self._sending:
            try:
                if self._pipe is not None:
                    self._pipe.send(request)
                    return True
            except OSError:
                pass  # it has just ended; its sentinel says so too
            return False

    def _close_pipe(self) -> None:
        with self._sending:
            if self._pipe is not None:
                self._pipe.close()
            self._pipe, self._asked = None, False
        self._snapshot = None
        self._answered.set()
        self._forget_changes()
        self._forget_steps()


class Supervisor:
    """Starts, watches and stops the workers.

    Args:
        config: the configuration.
        ring: the keys that all workers share.
        serve: the proxy itself.
        lifecycle: who is told of all workers together; its `start` is what each begins with.
        sockets: where the workers accept clients.

    Attributes:
        restarts: number of workers that ended unexpectedly and were started again.
        reload: reloads the configuration; None if nobody can. It is called in threads.

    """

    def __init__(
        self,
        config: Config,
        ring: KeyRing,
        serve: Serve,
        lifecycle: Lifecycle,
        sockets: ListeningSockets,
    ) -> None:
        self.restarts = 0
        self._sockets = sockets
        self._worker_start = lifecycle.start
        self._prepared = not lifecycle.start.waits
        self._steps: SimpleQueue[Step] = SimpleQueue()
        self._acting = threading.Lock()
        self._leaving = False
        self._stopping = threading.Event()
        self._failing = False
        self.reload: Callable[[], Answer] | None = None
        self._changes: SimpleQueue[tuple[Change, Callable[[int, str], None]]] = SimpleQueue()
        self._up = threading.Event()  # all have come up, or it stops
        self._config = config
        self._ring = ring
        self._serve = serve
        self._lifecycle = lifecycle
        self._workers = [ChildWorker(number) for number in range(config.workers)]
        self._came_up = False
        self._signals = 0
        self._accepts_until: float | None = None  # then the workers stop to accept clients
        self._stop_deadline: float | None = None
        self._killed = False
        self._heartbeat_at = 0.0  # when the workers are to be asked for one, monotonic s
        self._status = 0
        self._scraping = threading.Lock()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)

    def run(self) -> int:
        """Run until a signal stops the workers or they cannot start; return the exit status."""
        previous = {
            number: signal.signal(number, self._on_signal)
            for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            for worker in self._workers:
                if self._stop_deadline is None:  # else one before it could not be started
                    self._start_worker(worker)
            while self._stop_deadline is None or any(self._handles()):
                ready = wait([self._wake_read, *self._handles()], self._timeout())
                if self._wake_read in ready:
                    os.read(self._wake_read, 64)
                for worker in self._workers:
                    worker.receive()
                self._look()
            return self._status
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def trouble(self) -> str:
        """Why clients' writes cannot be served, if no worker can; may be called from any thread."""
        if self._leaving:
            return ""  # who asks at this address is served by the successor
        if self._stop_deadline is not None:
            return DRAINING
        serving = [worker.trouble for worker in self._workers if worker.port]
        if not serving:
            return NOT_SERVING
        return "" if "" in serving else serving[0]

    def snapshots(self) -> dict[int, Snapshot | None]:
        """Ask every worker for its counts; None for one that does not answer.

        May be called from any thread.
        """
        with self._scraping:
            deadline = time.monotonic() + SCRAPE_TIMEOUT_S
            for worker in self._workers:
                worker.ask()
            return {
                worker.number: worker.answer(deadline - time.monotonic())
                for worker in self._workers
            }

    def change(self, change: Change) -> list[str]:
        """Give all workers another configuration, now and when they are started again.

        To be called from another thread than `run`. It waits until all have come up.

        Returns:
            What went wrong, worker by worker.

        Raises:
            CannotReloadError: the workers stop, or do not come up.
        """
        if not self._up.wait(CHANGE_TIMEOUT_S):
            raise CannotReloadError("the workers have not come up yet")
        if self._stop_deadline is not None:
            raise CannotReloadError(DRAINING)
        errors: dict[int, str] = {}
        answered = threading.Semaphore(0)

        def then(number: int, error: str) -> None:
            errors[number] = error
            answered.release()

        self._changes.put((change, then))
        self._wake()
        deadline = time.monotonic() + CHANGE_TIMEOUT_S
        for _ in self._workers:
            answered.acquire(timeout=max(0.0, deadline - time.monotonic()))
        silent = "it does not answer; the configuration counts there when it does"
        return [
            f"worker {worker.number}: {error}"
            for worker in self._workers
            if (error := errors.get(worker.number, silent))
        ]

    def stopping(self) -> bool:
        """Whether the workers stop; may be called from any thread."""
        return self._stopping.is_set()

    def act(self, step: Step) -> None:
        """Have all workers do a step of a hand-over, and wait (`WorkerGroup`)."""
        with self._acting:
            for worker in self._workers:
                while not worker.steps_done.empty():
                    worker.steps_done.get()  # one that came too late
            self._steps.put(step)
            self._wake()
            deadline = time.monotonic() + STEP_S
            for worker in self._workers:
                done = None
                while done is None or done.kind is not step.kind:
                    try:
                        done = worker.steps_done.get(timeout=max(0, deadline - time.monotonic()))
                    except Empty:
                        raise StepError(
                            f"worker {worker.number} does not answer within {STEP_S:g} s"
                        ) from None
                if done.error:
                    raise StepError(f"worker {worker.number}: {done.error}")

    def leave(self) -> None:
        """A successor accepts the clients: let the sessions go, and end (`WorkerGroup`)."""
        self._leaving = True
        self._wake()
        self._stopping.wait()

    def fail(self) -> None:
        """End, since this proxy cannot take over (`WorkerGroup`)."""
        self._failing = True
        self._wake()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._signals += 1
        self._wake()

    def _wake(self) -> None:
        """End the wait."""
        with suppress(BlockingIOError):  # it is full, and so wakes in any case
            os.write(self._wake_write, b"!")

    def _handles(self) -> list[Connection | int]:
        return [handle for worker in self._workers for handle in worker.handles()]

    def _timeout(self) -> float | None:
        times = [worker.restart_at for worker in self._workers if worker.restart_at is not None]
        if self._stop_deadline is None:
            times.append(self._heartbeat_at)
        elif not self._killed:
            times.append(self._stop_deadline)
        if self._accepts_until is not None:
            times.append(self._accepts_until)
        return max(min(times) - time.monotonic(), 0) if times else None

    def _look(self) -> None:
        """Act on what has changed."""
        self._take_changes()
        self._take_steps()
        self._pass_on_reloads()
        if (self._signals or self._leaving or self._failing) and self._stop_deadline is None:
            _log.info("stopping %d workers", len(self._workers))
            if self._failing:
                self._status = CANNOT_SERVE
            self._stop()
        for worker in self._workers:
            status = worker.ended()
            if status is not None:
                self._worker_ended(worker, status)
        now = time.monotonic()
        if self._stop_deadline is None:
            for worker in self._workers:
                if worker.restart_at is not None and worker.restart_at <= now:
                    self._start_worker(worker)
            if now >= self._heartbeat_at:
                self._heartbeat_at = now + HEARTBEAT_INTERVAL_S
                self._ask_for_heartbeats()
                self._lifecycle.alive()
        else:
            self._look_at_stop(now)
        self._look_at_start()

    def _look_at_start(self) -> None:
        """Tell how far the workers have come up."""
        if not self._prepared and all(worker.prepared for worker in self._workers):
            self._prepared = True
            self._lifecycle.prepared()
        if not self._came_up and all(worker.port for worker in self._workers):
            self._came_up = True
            self._up.set()
            self._lifecycle.ready(self._sockets.port)

    def _take_changes(self) -> None:
        """Give the workers the configurations that came from other threads."""
        while not self._changes.empty():
            change, then = self._changes.get()
            follow_log_options(self._config, change.config, None)
            self._config, self._ring = change.config, change.ring
            for worker in self._workers:
                worker.change(change, partial(then, worker.number))

    def _take_steps(self) -> None:
        """Give the workers the steps of hand-overs that came from another thread."""
        while not self._steps.empty():
            step = self._steps.get()
            # Workers that are started from now on begin as if they had done it.
            if step.kind is StepKind.LINK:
                self._worker_start = dataclasses.replace(self._worker_start, other=step.board)
            elif step.kind is StepKind.UNLINK:
                self._worker_start = dataclasses.replace(self._worker_start, other=None)
            elif step.kind in (StepKind.PAUSE, StepKind.RESUME):
                waits = step.kind is StepKind.PAUSE
                self._worker_start = dataclasses.replace(self._worker_start, waits=waits)
            for worker in self._workers:
                worker.act(step)

    def _pass_on_reloads(self) -> None:
        """Reload in a thread where that was asked for in a worker."""
        for worker in self._workers:
            while worker.reloads_wanted:
                worker.reloads_wanted -= 1
                threading.Thread(
                    target=self._reload_for, args=(worker,), name="reload", daemon=True
                ).start()

    def _reload_for(self, worker: ChildWorker) -> None:
        answer = Answer(errors=("nobody can reload here",))
        if self.reload is not None:
            answer = self.reload()
        worker.reloaded(answer)

    def _look_at_stop(self, now: float) -> None:
        """Act on how far the workers are on the way to their end."""
        if self._accepts_until is not None and now >= self._accepts_until:
            self._accepts_until = None
            self._sockets.close()  # or clients would wait in their backlogs
        late = self._stop_deadline is not None and now >= self._stop_deadline
        # To a process that a successor has relieved, the first signal is a second one.
        at_once = self._signals > (0 if self._leaving else 1)
        if not self._killed and (at_once or late):
            self._kill()

    def _ask_for_heartbeats(self) -> None:
        for worker in self._workers:
            if worker.hangs() and worker.kill():
                _log.error(
                    "worker %d has not answered for %g s, since its process was stopped or its"
                    " event loop hangs, and is killed",
                    worker.number,
                    MISSED_HEARTBEATS * HEARTBEAT_INTERVAL_S,
                )

    def _worker_ended(self, worker: ChildWorker, status: int) -> None:
        how = f"exit status {status}" if status >= 0 else signal.Signals(-status).name
        if not self._worker_start.waits:  # else they are not this proxy's alone
            self._sockets.on_worker_ended(worker.number, len(self._workers))
        if self._stop_deadline is not None:
            if status:
                _log.warning("worker %d ended by %s", worker.number, how)
        elif not worker.came_up:
            self._give_up(worker, how)
        else:
            self.restarts += 1
            pause = worker.plan_restart()
            _log.error(
                "worker %d ended by %s; starting it again in %g s", worker.number, how, pause
            )

    def _start_worker(self, worker: ChildWorker) -> None:
        sockets = self._sockets.of_worker(worker.number, len(self._workers))
        start = dataclasses.replace(self._worker_start, sockets=sockets)
        try:
            worker.start(self._serve, self._config, self._ring, start)
        except OSError as error:  # descriptors, processes or memory may be free again later
            if not worker.came_up:
                self._give_up(worker, error_text(error))
                return
            _log.error(
                "worker %d cannot be started: %s; trying again in %g s",
                worker.number,
                error_text(error),
                worker.plan_restart(),
            )

    def _give_up(self, worker: ChildWorker, cause: str) -> None:
        """A worker did not come up, most likely as none would: the whole proxy ends."""
        _log.error("worker %d could not start: %s", worker.number, cause)
        self._status = CANNOT_SERVE
        self._stop()

    def _stop(self) -> None:
        if not self._leaving:
            self._lifecycle.stopping()
        config = self._config
        now = time.monotonic()
        self._accepts_until = now if self._leaving else now + config.drain_delay
        self._stop_deadline = self._accepts_until + config.drain_timeout + STOP_SLACK_S
        for worker in self._workers:
            worker.restart_at = None
            if self._leaving:
                worker.act(Step(StepKind.LEAVE))
            worker.stop()
        self._look_at_stop(now)
        self._stopping.set()
        self._up.set()  # whoever waits for it is told that it stops

    def _kill(self) -> None:
        self._killed = True
        for worker in self._workers:
            if worker.kill():
                _log.error("worker %d had not stopped and was killed", worker.number)
                self._status = CANNOT_SERVE


def _start_unsignalled(process: SpawnProcess) -> None:
    """Start a process that inherits that SIGINT and SIGHUP are blocked.

    A terminal's Ctrl-C must not end it before the supervisor decides what to do, and a SIGHUP for
    the group must not at all.

    Raises:
        OSError: the system lets no process be started now.
    """
    resource_tracker.ensure_running()  # its start, which would be part of it, unblocks signals
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
