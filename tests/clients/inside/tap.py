"""Runs test programs that write TAP (Test Anything Protocol), and records each assertion.

    python tap.py COMMAND... -- FILE...

A file that ends otherwise than it planned counts as one more test, which failed.
"""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import count

from tidegate_recording import record

ASSERTION = re.compile(r"(not )?ok\b\s*(\d+)?\s*-?\s*([^#]*)(#\s*(skip|todo)\b.*)?", re.IGNORECASE)
PLAN = re.compile(r"1\.\.(\d+)(\s*#\s*skip.*)?", re.IGNORECASE)
VARYING = re.compile(r"\d{2,}|0x[0-9a-f]+")
"""Process ids, times and addresses in an assertion's name."""


def run(command: list[str], file: str) -> None:
    """Run one file."""
    try:
        done = subprocess.run(
            [*command, file],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=120,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        record(file, "failed", f"ended after {error.timeout:.0f} s: {error.stdout!r}"[-2000:])
        return
    text = done.stdout.decode(errors="replace")
    print(f"== {file}\n{text}", flush=True)
    planned: int | None = None
    numbers = count(1)
    seen = 0
    for line in text.splitlines():
        if plan := PLAN.fullmatch(line.strip()):
            planned = int(plan[1])
            if plan[2]:
                record(file, "skipped", plan[2])
                return
        elif match := ASSERTION.match(line):
            seen = next(numbers)
            name = VARYING.sub("N", match[3].strip())
            if (match[5] or "").lower() in ("skip", "todo"):
                outcome = "skipped"
            else:
                outcome = "failed" if match[1] else "passed"
            record(f"{file} {seen} {name}"[:150], outcome, text[-1500:])
    # Assertions that failed have been recorded; what else a status can tell is that it died.
    died = done.returncode < 0 or planned is None or seen != planned
    record(f"{file} ends as planned", "failed" if died else "passed", text[-3000:])


def main() -> None:
    """Run the files of the command line, one after the other."""
    at = sys.argv.index("--")
    for file in sys.argv[at + 1 :]:
        run(sys.argv[1:at], file)


if __name__ == "__main__":
    main()
