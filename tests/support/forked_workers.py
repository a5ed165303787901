"""Lets worker processes begin as copies of their supervisor, in place of new interpreters.

Most of the time that a worker takes to start goes into loading the modules that its supervisor has
loaded before: 0.3 s of CPU. A copy is given no more than a new interpreter would be: the
descriptors that it inherits, the signals that are ignored or blocked, and its work, through a pipe.
"""

import contextlib
import gc
import os
import signal
import sys
import traceback
from collections.abc import Iterable, Sequence
from itertools import pairwise
from multiprocessing import util
from pathlib import Path
from types import ModuleType
from typing import Final

WORKER: Final = "worker"
"""What the kernel calls such a worker (/proc/PID/comm)."""


def install() -> None:
    """Let all processes that `multiprocessing` begins from now on be copies of this one."""
    util.spawnv_passfds = _copy  # type: ignore[attr-defined]  # it is private


def _copy(path: bytes, arguments: Sequence[str], descriptors: Iterable[int]) -> int:
    """Begin a process in which the text behind ``-c`` runs; return its id."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        gc.freeze()  # else what the copy does not need would close descriptors later
        _forget_signals()
        _close_all_but(descriptors)
        place = arguments.index("-c") + 1
        text = arguments[place]
        if "spawn_main" in text:  # else it is the resource tracker
            with contextlib.suppress(OSError):  # on other systems than Linux
                Path("/proc/self/comm").write_text(WORKER)
        sys.argv = ["-c", *arguments[place + 1 :]]
        main = sys.modules["__main__"] = ModuleType("__main__")
        exec(text, vars(main))  # noqa: S102  # the text is of `multiprocessing`
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        util._flush_std_streams()  # type: ignore[attr-defined]  # it is private
        os._exit(status)


def _forget_signals() -> None:
    """Handle signals as a program does that has just been started."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _close_all_but(descriptors: Iterable[int]) -> None:
    """Close what is not inherited; the standard streams are."""
    kept = sorted({0, 1, 2, *descriptors})
    for below, above in pairwise([*kept, os.sysconf("SC_OPEN_MAX")]):
        os.closerange(below + 1, above)
