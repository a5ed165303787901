"""Starts proxies as copies of a process that has loaded Tidegate's modules.

Most of the time that `tidegate run` takes to start goes into loading them: 0.3 s, and tests start
hundreds of proxies. The process that is copied has no threads, has opened nothing and has read no
configuration; but it has checked the RSA key that all of them are given, which takes half of the
time that remains. It is started with the first proxy and ends with the process that started it.
Workers are copies, too, of their supervisors (`tests/support/forked_workers.py`).
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from socketserver import BaseServer

_MOST_BYTES = 1 << 20
"""Of a request: a command line and an environment."""


class ForkedProxy:
    """A proxy's process, to be used as a `subprocess.Popen`.

    Args:
        arguments: of `tidegate`.
        output: a file for its stdout and stderr.
        script: a file of Python that is run in its place, in a session of its own.

    Attributes:
        pid: its id.
        returncode: its exit status; None while it runs; negative for the signal that ended it.
    """

    def __init__(
        self, arguments: Sequence[str], output: Path, *, script: Path | None = None
    ) -> None:
        self.returncode: int | None = None
        self._report, theirs = socket.socketpair()
        request = {
            "arguments": list(arguments),
            "output": str(output),
            "script": script and str(script),
            "environment": dict(os.environ),
        }
        with theirs:
            socket.send_fds(_server(), [json.dumps(request).encode() + b"\n"], [theirs.fileno()])
        self.pid = int(self._line())

    def poll(self) -> int | None:
        """The exit status, once it has ended."""
        if self.returncode is None and self._has_ended(0.0):
            self._finish()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end.

        Raises:
            subprocess.TimeoutExpired: it runs still.
        """
        if self.returncode is None:
            if not self._has_ended(timeout):
                raise subprocess.TimeoutExpired("tidegate run", timeout or 0.0)
            self._finish()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def _has_ended(self, timeout: float | None) -> bool:
        report = select.poll()  # select() takes no number above 1023
        report.register(self._report, select.POLLIN)
        return bool(report.poll(None if timeout is None else timeout * 1000))

    def _finish(self) -> None:
        self.returncode = int(self._line())
        self._report.close()

    def _line(self) -> str:
        """A number that the server sends; it sends no two at once."""
        line = b""
        while not line.endswith(b"\n"):
            received = self._report.recv(32)
            if not received:
                raise RuntimeError("the process that starts proxies has ended")
            line += received
        return line.decode()


@cache
def _server() -> socket.socket:
    """A connection to the process that is copied."""
    ours, theirs = socket.socketpair()
    with theirs:
        subprocess.Popen(
            [sys.executable, "-m", __name__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
        )
    return ours


def _serve(requests: socket.socket) -> int:
    """Start proxies until nobody asks any more; in a proxy, its exit status."""
    ended, wakes = socket.socketpair()
    ended.setblocking(False)
    wakes.setblocking(False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    reports: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([requests, ended], [], [])
        if ended in ready:
            ended.recv(4096)
            _reap(reports)
        if requests not in ready:
            continue
        data, descriptors, _, _ = socket.recv_fds(requests, _MOST_BYTES, 1)
        while data and not data.endswith(b"\n"):
            data += requests.recv(_MOST_BYTES)
        if not data:
            return 0
        report = socket.socket(fileno=descriptors[0])
        request = json.loads(data)
        _check_key(request["arguments"])
        pid = os.fork()
        if not pid:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for inherited in (requests, ended, wakes, report, *reports.values()):
                inherited.close()
            return _run(**request)
        report.sendall(b"%d\n" % pid)
        reports[pid] = report


def _check_key(arguments: Sequence[str]) -> None:
    """Check the RSA key that a proxy will read; it has the result in its copy of this process."""
    from protocol.rsa import RsaKey

    if "--rsa-key" in arguments:
        with contextlib.suppress(OSError, ValueError):  # the proxy is to say that
            RsaKey.from_pem(Path(arguments[arguments.index("--rsa-key") + 1]).read_bytes())


def _reap(reports: dict[int, socket.socket]) -> None:
    for pid in list(reports):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            with reports.pop(pid) as report:
                report.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def _run(arguments: list[str], output: str, script: str | None, environment: dict[str, str]) -> int:
    """Be the proxy."""
    from proxy import cli
    from tests.support import forked_workers

    forked_workers.install()
    # So often, not every 0.5 s, a server looks whether it is to end: hundreds of proxies do.
    BaseServer.serve_forever.__defaults__ = (0.02,)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    written = os.open(output, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(written, stream)
    os.close(written)
    if script is not None:
        os.setsid()
        runpy.run_path(script, run_name="__main__")
        return 0
    sys.argv = ["tidegate", *arguments]
    return cli.main(arguments)


if __name__ == "__main__":
    import proxy.cli
    import proxy.workers  # noqa: F401  # what `tidegate run` loads

    gc.collect()
    gc.freeze()  # no proxy need look at them, and so copy the memory in which they are
    sys.exit(_serve(socket.socket(fileno=int(sys.argv[1]))))
