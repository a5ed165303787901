"""Tells the service manager that started this process how it is doing, as sd_notify(3) says.

systemd waits for the first word of a service of ``Type=notify``, and starts it anew if it owes its
next one for longer than ``WatchdogSec=``. Where nobody asked for that, nothing is sent.
"""

import logging
import os
import socket
import time
from collections.abc import Mapping
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

    def __init__(self, environment: Mapping[str, str]) -> None:
        address = environment.get(_SOCKET, "")
        # An abstract socket's name begins with a zero byte, which no environment can hold.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._failed = False
        self._status = ""  # of a process that serves clients
        limit = environment.get(_WATCHDOG, "")
        process = environment.get(_WATCHDOG_PROCESS, str(os.getpid()))
        watches = bool(self._address) and limit.isdigit() and process == str(os.getpid())
        self.watchdog_interval = int(limit) / 3e6 if watches else 0.0

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

    def main_process(self, pid: int) -> None:
        """Another process of the service has taken this one's place, which says no more."""
        self._send(f"MAINPID={pid}")
        self._status = self._address = ""

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
