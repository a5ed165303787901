"""What a process takes with its children."""

import os
import subprocess
import sys

from benchmarks.memory import PeakMemory

SIZE = 64 << 20


def test_the_children_of_a_process_count() -> None:
    with PeakMemory(os.getpid()) as alone:
        pass
    code = f"import sys; block = b'x' * {SIZE}; print('ready', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        with PeakMemory(os.getpid()) as both:
            pass
        child.communicate()
    assert 0 < alone.bytes < both.bytes - SIZE // 2
