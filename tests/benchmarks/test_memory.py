"""What a process takes with its children."""

import subprocess
import sys

from benchmarks.memory import PeakMemory

SIZE = 64 << 20
CHILD = f"import sys; block = b'x' * {SIZE}; print('ready', flush=True); sys.stdin.read()"
PARENT = """
import subprocess, sys
print("ready", flush=True)
sys.stdin.readline()
subprocess.Popen([sys.executable, "-c", sys.argv[1]])  # has this one's input and output
sys.stdin.read()
"""
"""One whose own memory does not change: the tests' is that of all who ran before."""


def test_the_children_of_a_process_count() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        with PeakMemory(parent.pid) as alone:
            pass
        parent.stdin.write(b"\n")
        parent.stdin.flush()
        assert parent.stdout.readline() == b"ready\n"
        with PeakMemory(parent.pid) as both:
            pass
    assert 0 < alone.bytes < both.bytes - SIZE // 2
