import os
import subprocess
import sys
import time

import pytest

from benchmarks.processor import cpu_seconds

# Works for 0.1 s of processor time in a thread, and lets a child do the same; then both wait.
WORK = """
import subprocess, sys, threading, time

def work():
    end = time.thread_time() + 0.1
    while time.thread_time() < end:
        pass

if len(sys.argv) > 1:
    subprocess.Popen([sys.executable, "-c", sys.argv[1]])
thread = threading.Thread(target=work)
thread.start()
thread.join()
sys.stdin.read()
"""


def test_the_time_of_threads_and_children_is_counted() -> None:
    with subprocess.Popen([sys.executable, "-c", WORK, WORK], stdin=subprocess.PIPE) as process:
        deadline = time.monotonic() + 60
        while (used := cpu_seconds(process.pid)) < 0.2 and time.monotonic() < deadline:
            time.sleep(0.01)
        process.communicate()  # both read the end of their input
    assert used >= 0.2


def test_a_clock_runs_forward() -> None:
    before = cpu_seconds(os.getpid())
    sum(range(100_000))
    assert cpu_seconds(os.getpid()) > before


def test_no_such_process() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    with pytest.raises(OSError, match="Invalid argument"):
        cpu_seconds(process.pid)
