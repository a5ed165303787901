"""The processor time that a process has used."""

import time
from pathlib import Path


def cpu_seconds(pid: int) -> float:
    """Processor time, user and system, of a process with its threads and its child processes.

    Read from each process's own CPU clock, in nanoseconds: ``/proc/PID/stat`` has the same only in
    ticks of 10 ms. Children that have ended are not counted.

    Raises:
        OSError: no such process.
    """
    return sum(time.clock_gettime(_clock(process)) for process in (pid, *descendants(pid)))


def _clock(pid: int) -> int:
    return (~pid << 3) | 2  # CPUCLOCK_SCHED of a whole process, as clock_getcpuclockid(3) makes it


def descendants(pid: int) -> list[int]:
    """The process's children, their children, and so on."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
        # "PID (NAME) STATE PARENT ...", and NAME may hold blanks and parentheses
        parent = int(text.rpartition(")")[2].split()[1])
        children.setdefault(parent, []).append(int(stat.parent.name))
    found: list[int] = []
    nearest = children.get(pid, [])
    while nearest:
        found += nearest
        nearest = [child for parent in nearest for child in children.get(parent, [])]
    return found
