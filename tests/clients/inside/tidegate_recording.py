"""Runs inside a suite's own environment and writes each test's outcome down as it ends.

A plugin of pytest (``-p tidegate_recording``), and the recorder that Django's runner is given. The
file named by TIDEGATE_RECORD gets one JSON object per line: ``id``, ``outcome`` (passed, failed or
skipped) and ``detail``, the end of what the test printed. So a suite that hangs or crashes still
leaves what it has done.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any


def record(test: str, outcome: str, detail: str = "") -> None:
    """Append a test's outcome."""
    # Tests with an object in their name: its address is another one in each run.
    test = re.sub(r" at 0x[0-9a-f]+", "", test)
    line = json.dumps({"id": test, "outcome": outcome, "detail": detail[-4000:]})
    with open(os.environ["TIDEGATE_RECORD"], "a", encoding="utf-8") as file:  # noqa: PTH123 old Pythons
        file.write(line + "\n")


def pytest_runtest_logreport(report: Any) -> None:
    """Record the call, or what kept it from running; an error behind it is a failure, too."""
    if report.when == "call" or report.outcome != "passed":
        record(report.nodeid, report.outcome, report.longreprtext)


def pytest_collectreport(report: Any) -> None:
    """A file that cannot be loaded counts as one failed test."""
    if report.failed:
        record(report.nodeid, "failed", report.longreprtext)
