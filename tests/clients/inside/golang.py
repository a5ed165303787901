"""Runs `go test -json`, the command line, and records each test."""

from __future__ import annotations

import json
import subprocess
import sys

from tidegate_recording import record

OUTCOMES = {"pass": "passed", "fail": "failed", "skip": "skipped"}


def main() -> None:
    """Run it."""
    output: dict[str, list[str]] = {}
    with subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            if not line.startswith("{"):
                continue
            event = json.loads(line)
            test = event.get("Test", "the package")
            if event["Action"] == "output":
                output.setdefault(test, []).append(event["Output"])
            elif event["Action"] in OUTCOMES:
                record(test, OUTCOMES[event["Action"]], "".join(output.get(test, [])))


if __name__ == "__main__":
    main()
