"""Ends an audit when SIGTERM or Ctrl-C comes.

Python's main thread mostly waits for the JVM then, and so does much of what cleans up behind an
error. So the JVM is told to end first: all that waits for it gets an error soon. Then `Stopped` is
raised. Whoever catches another error asks `check` whether it is only a consequence.
"""

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Final

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

_PATIENCE_S: Final = 10.0
"""How long the JVM may take to end by itself."""


class Stopped(BaseException):
    """A signal has come; like KeyboardInterrupt, it is no error.

    Attributes:
        number: the signal's.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    @property
    def exit_code(self) -> int:
        """The status by which shells tell of a process that a signal ended."""
        return 128 + self.number

    @property
    def name(self) -> str:
        """The signal's name."""
        return signal.Signals(self.number).name


class _State:
    """What the handler knows; signals are of the whole process.

    Attributes:
        number: the first signal that came; None if none has.
        jvm: leader of a process group that is to end first.
    """

    number: int | None = None
    jvm: "subprocess.Popen[bytes] | None" = None


_state: Final = _State()


@contextmanager
def handled() -> Iterator[None]:
    """Raise `Stopped` in this block when a signal comes; no other than the main thread can.

    From then on to the end of the block nothing is shown: Spark's threads would tell, each with a
    traceback, that their JVM is gone.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _on_signal) for number in _SIGNALS}
    stderr = sys.stderr
    try:
        yield
    except KeyboardInterrupt:  # by the handler that PySpark sets for a moment
        raise Stopped(signal.SIGINT) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if _state.number is not None:
            _state.number = None
            logging.disable(logging.NOTSET)
            sys.stderr = stderr


@contextmanager
def kept_handlers() -> Iterator[None]:
    """Set the handlers again at the end of this block, in which a library may set its own."""
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                signal.signal(number, handler)


def check() -> None:
    """Raise `Stopped` if a signal has come."""
    if _state.number is not None:
        raise Stopped(_state.number)


def is_stopping() -> bool:
    """Whether a signal has come."""
    return _state.number is not None


def ends_first(jvm: "subprocess.Popen[bytes] | None") -> None:
    """Name the process that a signal ends before `Stopped` is raised; None for none."""
    _state.jvm = jvm


def end(leader: "subprocess.Popen[bytes]") -> None:
    """End a process group, by force if its leader takes long, and wait for the leader's end."""
    with suppress(ProcessLookupError):
        os.killpg(leader.pid, signal.SIGTERM)
    try:
        leader.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(leader.pid, signal.SIGKILL)
        leader.wait()


def _on_signal(number: int, _frame: FrameType | None) -> None:
    if _state.number is not None:
        return  # it is ending
    _state.number = number
    logging.disable()
    sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - until the process ends
    if _state.jvm is not None:
        # Before the error below: a finalizer in which it is raised would swallow it.
        threading.Thread(target=end, args=(_state.jvm,), daemon=True).start()
    raise Stopped(number)
