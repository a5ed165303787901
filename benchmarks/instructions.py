"""How many instructions a statement costs: ``python -m benchmarks.instructions``.

Valgrind's callgrind counts what the compiled proxy does from the first byte of a statement, or of a
server's answer, until control is back in the event loop. The kernel, uvloop and the thread that
writes the routing log are left out. Unlike processor time, the count hardly depends on the machine
or on what else runs there, so that a change of one percent shows. Two runs of different length are
compared, so that the cost of logins and of the first statements cancels out.
"""

import argparse
import asyncio
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import uvloop

import protocol
from benchmarks.in_process import Client, serving

_FEW: Final = 100
_MANY: Final = 400
_ROWS: Final = 20
_ENTRIES: Final = tuple(
    f"CPyPy_{side}___connection___{name}___data_received"
    for side, name in (("client", "ClientConnection"), ("server", "ServerConnection"))
)
"""Where bytes come in, as mypyc names these methods."""

_ROW: Final = "INSERT INTO traced VALUES ({row}, 0)"
_STATEMENTS: Final = {
    "read": ("SELECT n FROM traced WHERE id = {number}",),
    "write": ("UPDATE traced SET n = n + 1 WHERE id = {row}",),
    "pair": (
        "UPDATE traced SET n = n + 1 WHERE id = {row}",
        "SELECT n FROM traced WHERE id = {row}",
    ),
}
_LATE_S: Final = {"read": 0.05, "write": 0.05, "pair": 0.001}
"""How late the replica is; with "pair", little enough for the read to wait for the write."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Count the instructions and print them; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keep", type=Path, help="a directory for callgrind's files")
    parser.add_argument("--run", choices=tuple(_STATEMENTS), help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, default=_MANY, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.run is not None:
        with tempfile.TemporaryDirectory() as log:
            uvloop.run(_run(options.run, options.count, Path(log)))
        return 0
    if shutil.which("valgrind") is None:
        print("valgrind is not installed (Debian: apt install valgrind)", file=sys.stderr)
        return 1
    if not protocol.compiled():
        print("the proxy is not compiled: ./dev install", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        for kind, statements in _STATEMENTS.items():
            few, many = (_counted(kind, count, folder) for count in (_FEW, _MANY))
            each = (many - few) / (_MANY - _FEW)
            print(f"{kind}: {each:,.0f} instructions for {len(statements)} statement(s)")
    return 0


def _counted(kind: str, count: int, folder: Path) -> int:
    """The instructions of a whole run."""
    command = ["valgrind", "--tool=callgrind", "--collect-atstart=no"]
    command += [f"--callgrind-out-file={folder}/{kind}-{count}"]
    command += [f"--toggle-collect={entry}" for entry in _ENTRIES]
    command += [sys.executable, "-m", __spec__.name, "--run", kind, "--count", str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or found is None:
        raise RuntimeError(f"valgrind failed: {done.stderr[-500:]}")
    return int(found[1])


async def _run(kind: str, count: int, log: Path) -> None:
    async with serving(_LATE_S[kind], log) as port:
        client = await asyncio.to_thread(Client, port)
        await asyncio.to_thread(client.query, "CREATE TABLE traced (id INT PRIMARY KEY, n INT)")
        for row in range(_ROWS):
            await asyncio.to_thread(client.query, _ROW.format(row=row))
        await asyncio.sleep(0.3)
        await asyncio.to_thread(_work, client, kind, count)
        await asyncio.to_thread(client.close)


def _work(client: Client, kind: str, count: int) -> None:
    for current in range(count):
        for statement in _STATEMENTS[kind]:
            client.query(statement.format(row=current % _ROWS, number=100_003 + 7919 * current))


if __name__ == "__main__":
    sys.exit(main())
