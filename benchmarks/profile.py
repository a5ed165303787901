"""Where Tidegate's processor time goes, by Python function and by symbol."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks.cluster import Cluster
from benchmarks.contender import Tidegate
from benchmarks.program import ROOT, Program


class SampledTidegate(Tidegate):
    """Tidegate as plain Python under `benchmarks.sampler`."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster, "sampled", pure=True)
        self._file = self.directory / "samples.txt"

    def program(self) -> Program:
        """This project's Python with the sampler."""
        python = str(ROOT / ".venv" / "bin" / "python")
        return Program((python, "-m", "benchmarks.sampler", str(self._file)))

    def report(self) -> str:
        """The samples since the last report."""
        assert self.pid is not None  # noqa: S101  # it was started
        self._file.unlink(missing_ok=True)
        os.kill(self.pid, signal.SIGUSR1)
        deadline = time.monotonic() + 10
        while not self._file.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        return self._file.read_text()


PERF: Final = shutil.which("perf")
"""The program that shows the symbols of compiled modules, of the interpreter and of the kernel."""


@contextmanager
def perf(pid: int, report: Path, seconds: float) -> Iterator[None]:
    """Record a process during a `with` block of about `seconds`, and write a report."""
    if PERF is None:
        raise FileNotFoundError("perf is not installed (Debian: apt install linux-perf)")
    data = report.with_suffix(".data")
    command = [PERF, "record", "-q", "-e", "cpu-clock", "-F", "997"]
    command += ["-p", str(pid), "-o", str(data), "--", "sleep", f"{seconds:g}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    yield
    process.wait(seconds + 60)
    with report.open("wb") as output:
        for sort in ("dso", "dso,symbol"):
            subprocess.run(
                [PERF, "report", "--stdio", "-i", str(data), "--sort", sort],
                stdout=output,
                stderr=subprocess.DEVNULL,
                check=False,
            )
    data.unlink()
