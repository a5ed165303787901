"""Tells the service manager that started this process how it is doing, as sd_notify(3) says.

systemd waits for the first word of a service of ``Type=notify``, and starts it anew if it owes its
next one for longer than ``WatchdogSec=``. Where nobody asked for that, nothing is sent.
"""

import logging
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_log = logging.getLogger(__name__)

_SOCKET: Final = "NOTIFY_SOCKET"
_WATCHDOG: Final = "WATCHDOG_USEC"
_WATCHDOG_PROCESS: Final = "WATCHDOG_PID"


class ServiceManager:
    """The one that started this process, if there is one.

    Attributes:
        watchdog_interval: how often it wants to hear of the process (`alive`), s; 0: never. It is a
            third of the time that it waits.
    """

    def __init__(self, environment: Mapping[str, str], processes: Path = Path("/proc")) -> None:
        """Find it by the variables that it has set; `processes` is where proc(5) is mounted."""
        self._processes = processes
        self._given = {name: environment[name] for name in (_SOCKET,) if name in environment}
        address = environment.get(_SOCKET, "")
        # An abstract socket's name begins with a zero byte, which no environment can hold.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._failed = False
        self._status = ""  # of a process that serves clients
        limit = environment.get(_WATCHDOG, "")
        process = environment.get(_WATCHDOG_PROCESS, str(os.getpid()))
        watches = bool(self._address) and limit.isdigit() and process == str(os.getpid())
        self.watchdog_interval = int(limit) / 3e6 if watches else 0.0
        if watches:
            self._given[_WATCHDOG] = limit

    def ready(self, status: str) -> None:
        """Clients are served; `status` is a line for people."""
        self._status = status
        self._send(f"READY=1\nSTATUS={status}")

    def reloading(self) -> None:
        """The configuration is read anew, as a service of ``Type=notify-reload`` says it."""
        if self._status:
            self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def reloaded(self) -> None:
        """That has ended, whatever came of it."""
        if self._status:
            self.ready(self._status)

    def stopping(self) -> None:
        """The process is about to end."""
        self._status = ""
        self._send("STOPPING=1\nSTATUS=lets its sessions go")

    def environment_of(self, successor: int) -> list[str]:
        """The variables by which a process can do this one's part, as NAME=VALUE.

        There are none if it is not of the same service, and may belong to another one.
        """
        if not self._address or not self._is_of_this_service(successor):
            return []
        given = [f"{name}={value}" for name, value in self._given.items()]
        return [*given, f"{_WATCHDOG_PROCESS}={successor}"]

    def relieved_by(self, successor: int) -> None:
        """Another process serves the clients in this one's place.

        A process of the same service becomes its main process, and this one says no more. Another
        one cannot, since the manager tells services by their control groups (systemd takes no
        MAINPID= from outside, unless root sends it): then the service ends with this process, which
        says so, since the watchdog does not count for a service that stops.
        """
        if self._is_of_this_service(successor):
            self._send(f"MAINPID={successor}")
            self._status = self._address = ""
        else:
            self.stopping()

    def _is_of_this_service(self, process: int) -> bool:
        try:
            of_both = [
                (self._processes / name / "cgroup").read_text() for name in ("self", str(process))
            ]
        except OSError:
            return False
        return of_both[0] == of_both[1]

    def alive(self) -> None:
        """The process lives, and whatever it is that serves clients runs."""
        if self.watchdog_interval:
            self._send("WATCHDOG=1")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.connect(self._address)
                sender.send(message.encode())
        except OSError as error:
            if not self._failed:
                self._failed = True
                _log.warning("the service manager cannot be told: %s", error.strerror)
