"""Programs of many languages at a server, each by each of its ways.

A program writes a line for each check: ``ok NAME``, or ``not ok NAME # REASON``. Its last line is
``end``; one without it died.
"""

from __future__ import annotations

import json
import os
import subprocess

from tidegate_recording import record


def run(program: str, way: str, command: list[str]) -> None:
    """Run a program one way, and record its checks."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=240,
            check=False,
        )
        output = done.stdout
    except subprocess.TimeoutExpired as error:
        output = error.stdout or b""
    text = output.decode(errors="replace")
    print(f"== {program}, {way}\n{text}", flush=True)
    lines = text.splitlines()
    for line in lines:
        failed = line.startswith("not ok ")
        if failed or line.startswith("ok "):
            name, _, detail = line.removeprefix("not ").removeprefix("ok ").partition(" # ")
            record(f"{program}, {way}: {name}", "failed" if failed else "passed", detail)
    died = "end" not in lines
    record(f"{program}, {way}: comes to its end", "failed" if died else "passed", text[-2000:])


def benchmark(script: str, preparing: str) -> None:
    """Run one of sysbench's tests with four threads; passes if it has done all events."""
    account = [f"--mysql-{name}={os.environ[f'TIDEGATE_{name.upper()}']}" for name in _ACCOUNT]
    options = [*account, "--db-driver=mysql", "--mysql-db=test", f"--db-ps-mode={preparing}"]
    options += ["--threads=4", "--events=200", "--time=0", "--table-size=1000"]
    name = f"sysbench, {preparing}: {script}"
    output = ""
    for step in ("prepare", "run", "cleanup"):
        done = subprocess.run(
            ["sysbench", script, *options, step],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        output += done.stdout + done.stderr
        if done.returncode:
            break
    well = not done.returncode and "total number of events:              200" in output
    record(name, "passed" if well else "failed", output)


_ACCOUNT = ("host", "port", "user", "password")
_SCRIPTS = ("oltp_read_write", "oltp_write_only", "oltp_read_only", "oltp_point_select")


def main() -> None:
    """Run every program of TIDEGATE_PROGRAMS (JSON: its name, its ways, the command of each)."""
    for program, ways in json.loads(os.environ["TIDEGATE_PROGRAMS"]).items():
        for way, command in ways.items():
            run(program, way, command)
    for preparing in ("auto", "disable"):
        for script in _SCRIPTS:
            benchmark(script, preparing)


if __name__ == "__main__":
    main()
