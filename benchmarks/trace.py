"""How many calls a statement costs: ``python -m benchmarks.trace``.

A proxy runs in this process, in front of the mocker. A client sends a read whose proof is known, a
write, and a read that waits. Each call in `proxy/`, `routing/` and `protocol/` is counted from
`ClientConnection.data_received` to the written answer, as plain Python. The first statements of a
kind differ from later ones, since caches are still empty, so the last of a few is taken.
"""

import argparse
import asyncio
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from benchmarks.in_process import Client

_ROOT: Final = str(Path(__file__).resolve().parent.parent) + "/"
_COUNTED: Final = ("proxy/", "routing/", "protocol/")
_ENTRY: Final = ("proxy/client/connection.py", "proxy/server/connection.py")
"""Where bytes come in. What the mocker calls, and what a timer starts, is not counted."""
_WARM_UP: Final = 3
_APPLY_DELAY_S: Final = 0.05


class Trace:
    """The calls of one statement.

    Attributes:
        calls: of functions, by file and name.
        entries: calls of a function in another file than the caller's, by file.
    """

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        self.entries: Counter[str] = Counter()
        self._files: list[str] = []  # the file of each frame, from the entry on

    @property
    def files(self) -> set[str]:
        """The files in which a function was called."""
        return {file for file, _ in self.calls}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count during a `with` block."""
        sys.setprofile(self._event)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _event(self, frame: FrameType, event: str, _argument: object) -> None:
        if event not in ("call", "return"):
            return
        file = frame.f_code.co_filename.removeprefix(_ROOT)
        if not file.startswith(_COUNTED):
            return
        files = self._files
        if event == "return":
            if files:
                files.pop()
            return
        if not files and (file not in _ENTRY or frame.f_code.co_name != "data_received"):
            return
        if not files or files[-1] != file:
            self.entries[file] += 1
        files.append(file)
        self.calls[file, frame.f_code.co_name] += 1

    def __str__(self) -> str:
        again = sorted(file for file, count in self.entries.items() if count > 1)
        return (
            f"{self.calls.total()} calls, {len(self.files)} files, entered {self.entries.total()}"
            f" times; more than once: {', '.join(again) or 'none'}"
        )


async def _traced(client: "Client", sql: str) -> Trace:
    """Run a statement and count its calls."""
    trace = Trace()
    with trace.running():
        await asyncio.to_thread(client.query, sql)
    return trace


async def _run() -> dict[str, Trace]:
    from benchmarks.in_process import Client, serving

    async with serving(_APPLY_DELAY_S) as port:
        client = await asyncio.to_thread(Client, port)
        read = "SELECT n FROM traced WHERE id = 1"
        write = "UPDATE traced SET n = n + 1 WHERE id = 1"
        try:
            await asyncio.to_thread(client.query, "CREATE TABLE traced (id INT PRIMARY KEY, n INT)")
            await asyncio.to_thread(client.query, "INSERT INTO traced VALUES (1, 0)")
            traces = {}
            for _ in range(_WARM_UP):
                traces["a write"] = await _traced(client, write)
                traces["a read that waits"] = await _traced(client, read)
                traces["a known read"] = await _traced(client, read)
            return traces
        finally:
            await asyncio.to_thread(client.close)


def main(arguments: Sequence[str] | None = None) -> int:
    """Count the calls and print them; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", action="store_true", help="name each function, too")
    options = parser.parse_args(arguments)
    os.environ["TIDEGATE_PURE"] = "1"  # before the first module of the project is loaded
    for name, trace in sorted(asyncio.run(_run()).items()):
        print(f"{name}: {trace}")
        if options.calls:
            for (file, function), count in trace.calls.items():
                print(f"  {count:3} {file} {function}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
