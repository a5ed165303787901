"""The demo's end: the audit of its routing log, and of a copy in which one read was made stale."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from protocol.gtid import GtidSet

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Record = dict[str, object]

CLEAN: Final = 0
VIOLATED: Final = 1
UNDECIDED: Final = 2
"""Exit statuses of `tidegate audit`."""

_JAVA_OPTIONS: Final = "-XX:TieredStopAtLevel=1"
"""The log is short: the JVM's second compiler would cost more than it saves."""


class AuditError(Exception):
    """The audit's verdict on the demo's log is not the expected one; the message says why."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one audit.

    Attributes:
        status: its exit status.
        text: what it printed.
    """

    status: int
    text: str


async def prepare(setup: Sequence[str]) -> bool:
    """Run the program, if there is one, that installs what the audit needs.

    Its messages appear among the demo's own.

    Returns:
        Whether the audit can run; if not, a message was printed.
    """
    if not setup:
        return True
    try:
        process = await asyncio.create_subprocess_exec(*setup)
    except OSError as error:
        print(f"No audit of the routing log: {setup[0]} cannot be run: {error.strerror}.")
        return False
    try:
        status = await process.wait()
    except asyncio.CancelledError:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        raise
    if status:
        print("No audit of the routing log: what it needs is not installed.")
    return status == 0


async def show(log: Path, proxy_name: str) -> None:
    """Print the audit's verdict on a log, and on a copy in which one read of this proxy is stale.

    Raises:
        AuditError: the log is not clean, or the audit did not find the stale read.
    """
    copy = log.with_name("one-stale-read")
    plant(log, copy, proxy_name)
    # Both at once: most of the time goes into starting Spark.
    first, second = (asyncio.create_task(_audit(folder)) for folder in (log, copy))
    try:
        print(
            "The audit trusts none of this. From the writes and the times in the routing log it\n"
            "works out by itself what each read had to see. It runs on Spark: a minute or so.\n",
            flush=True,
        )
        verdict = await first
        print(_indented(verdict.text), flush=True)
        if verdict.status == UNDECIDED:
            return  # the audit has printed what is missing; the rest of the demo is still valid
        if verdict.status != CLEAN:
            raise AuditError("the audit found the demo's own log at fault")
        print(
            "\nWould it notice? Here is the same log, but one read was let through too early:\n",
            flush=True,
        )
        verdict = await second
        print(_indented(verdict.text), flush=True)
        if verdict.status != VIOLATED:
            raise AuditError("the audit did not notice the stale read")
        page = _kept(copy / "_audit" / "report.html")
        print(f"\nThe same for a browser, with a timeline of the read: {page}")
    finally:
        for task in (first, second):
            task.cancel()
        await asyncio.gather(first, second, return_exceptions=True)


def plant(log: Path, copy: Path, proxy_name: str) -> None:
    """Copy a log, and change one read in the copy as if it had been let through too early.

    The session's last write before the read is removed from the set that the read required, as if
    the proxy had forgotten it, and from the set that the replica was known to have.
    """
    shutil.copytree(log, copy)
    for path in sorted(copy.glob(f"date=*/{proxy_name}-*.jsonl")):
        records: list[Record] = [json.loads(line) for line in path.read_text().splitlines()]
        known = [number for number, record in enumerate(records) if _was_known(record)]
        if known:
            chosen = known[len(known) // 2]
            _make_stale(records[chosen], records[:chosen])
            path.write_text("".join(json.dumps(record) + "\n" for record in records))
            return


def _was_known(record: Record) -> bool:
    """Whether it is a read that needed no wait: no other record's verdict depends on such a one."""
    return record["class"] == "read" and record["proof"] == "known" and bool(record["required"])


def _make_stale(read: Record, before: Sequence[Record]) -> None:
    written = next(
        str(record["own_gtids"])
        for record in reversed(before)
        if record["session"] == read["session"] and record["own_gtids"]
    )
    forgotten = GtidSet.parse(str(read["required"])) - GtidSet.parse(written)
    read["required"] = read["proof_set"] = forgotten.text


async def _audit(log: Path) -> Verdict:
    """Run the audit in a process of its own, since a process can have only one Spark session."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tidegate",
        "audit",
        "--log",
        str(log),
        env={"JAVA_TOOL_OPTIONS": _JAVA_OPTIONS, **os.environ},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        output, errors = await process.communicate()
    except asyncio.CancelledError:
        process.terminate()
        raise
    finally:
        status = await process.wait()
    lines = (output + errors).decode(errors="replace").splitlines()
    # The report's folder is deleted when the demo ends, so its path is left out.
    return Verdict(status, "\n".join(line for line in lines if not line.startswith("Report: ")))


def _kept(report: Path) -> str:
    """Copy a report to where it outlives the demo; return its name there."""
    with tempfile.NamedTemporaryFile(prefix="tidegate-demo-", suffix=".html", delete=False) as copy:
        copy.write(report.read_bytes())
    return copy.name


def _indented(text: str) -> str:
    return textwrap.indent(text.strip("\n"), "    ")
