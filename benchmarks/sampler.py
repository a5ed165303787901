"""Runs Tidegate as plain Python and samples where its processor time goes, by function and line.

    python -m benchmarks.sampler FILE run --listen … --primary …

The stack is sampled every 2 ms of processor time (not of the clock, which would show waiting on a
busy machine). SIGUSR1 writes the samples to FILE and begins anew. Compiled functions have no Python
frames, so modules run as plain Python here; `perf` shows the compiled ones.
"""

import os
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Final

from benchmarks.program import ROOT

INTERVAL_S: Final = 0.002
_SHOWN: Final = 60


class Samples:
    """The samples since the last report.

    Attributes:
        own: samples by the innermost function.
        lines: samples by the innermost line.
        total: samples by every function on the stack.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self.count = 0
        self.own: Counter[str] = Counter()
        self.lines: Counter[str] = Counter()
        self.total: Counter[str] = Counter()

    def note(self, frame: FrameType | None) -> None:
        """Take a sample: the stack of this innermost frame."""
        if frame is None:
            return
        self.count += 1
        self.own[_function(frame)] += 1
        self.lines[f"{_file(frame)}:{frame.f_lineno} {frame.f_code.co_name}"] += 1
        functions = set()
        outer: FrameType | None = frame
        while outer is not None:
            functions.add(_function(outer))
            outer = outer.f_back
        self.total.update(functions)

    def render(self) -> str:
        """Tables of shares, the greatest first."""
        parts = [f"{self.count} samples, one per {INTERVAL_S * 1000:g} ms of processor time"]
        for title, counter in (
            ("in the function itself", self.own),
            ("in the line", self.lines),
            ("in the function and what it calls", self.total),
        ):
            parts.append(f"\n{title}")
            for name, count in counter.most_common(_SHOWN):
                parts.append(f"{count / self.count:7.1%}  {name}")
        return "\n".join(parts) + "\n"


def _file(frame: FrameType) -> str:
    path = Path(frame.f_code.co_filename)
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name


def _function(frame: FrameType) -> str:
    return f"{_file(frame)} {frame.f_code.co_qualname}"


def main() -> int:
    """Run Tidegate's command line with the arguments after the file's name."""
    os.environ["TIDEGATE_PURE"] = "1"  # before the first module of the project is loaded
    file, sys.argv = Path(sys.argv[1]), ["tidegate", *sys.argv[2:]]
    samples = Samples()

    def report(*_: object) -> None:
        unfinished = file.with_suffix(".unfinished")
        unfinished.write_text(samples.render())
        unfinished.rename(file)
        samples.clear()

    signal.signal(signal.SIGPROF, lambda _, frame: samples.note(frame))
    signal.signal(signal.SIGUSR1, report)
    signal.setitimer(signal.ITIMER_PROF, INTERVAL_S, INTERVAL_S)
    from proxy.cli import main as tidegate

    return tidegate()


if __name__ == "__main__":
    sys.exit(main())
