"""Runs PHP's run-tests.php, the command line, and records each test."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tidegate_recording import record

LINE = re.compile(r"(PASS|FAIL|SKIP|BORK|WARN|XFAIL|LEAK)\w*\b.*\[(\S+\.phpt)\](.*)")
OUTCOMES = {"PASS": "passed", "SKIP": "skipped", "XFAIL": "skipped"}


def main() -> None:
    """Run it, one test at a time: they share a database."""
    php, script, *tests = sys.argv[1:]
    options = ["-q", "-P", "--offline", "--set-timeout", "60", "-j1"]
    command = [php, script, *options, "-g", "PASS,FAIL,SKIP,BORK,WARN,XFAIL,LEAK", *tests]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            if match := LINE.search(line.replace("\r", "")):
                difference = Path(match[2]).with_suffix(".diff")
                detail = difference.read_text(errors="replace") if difference.exists() else match[3]
                record(match[2], OUTCOMES.get(match[1], "failed"), detail)


if __name__ == "__main__":
    main()
