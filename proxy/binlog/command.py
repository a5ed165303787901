"""What `tidegate binlog` does: files in, one record per transaction out."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

from proxy.binlog import rendering
from proxy.binlog.transactions import LogFile
from proxy.config import ConfigError

WriteParquet = Callable[[Path, Path], None]
"""Writes JSON Lines as a directory of Parquet files.

Raises:
    RuntimeError: it cannot; the message says what is missing.
"""


def run(files: Sequence[Path], form: str, output: Path | None, write_parquet: WriteParquet) -> int:
    """Print the transactions of binary logs; return the exit status.

    Args:
        files: the logs; each is read up to its end or up to its first damage.
        form: ``text``, ``json`` or ``parquet``.
        output: a file, or for Parquet a directory, which must be given; None for standard output.
        write_parquet: writes the format ``parquet``.

    Raises:
        ConfigError: the options contradict each other, or the output cannot be written.
    """
    if form == "parquet" and output is None:
        raise ConfigError("--format parquet writes a directory, which --output must name")
    logs = [LogFile(path) for path in files]
    lines = _texts(logs) if form == "text" else _json_lines(logs)
    try:
        if form == "parquet" and output is not None:
            _as_parquet(lines, output, write_parquet)
        elif output is None:
            _write(lines, sys.stdout)
        else:
            with output.open("w", encoding="utf-8") as file:
                _write(lines, file)
    except BrokenPipeError:
        # The reader has closed the pipe; what is left in the buffer must not fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        raise ConfigError(f"--output: {error.filename or output}: {error.strerror}") from error
    except RuntimeError as error:
        raise ConfigError(str(error)) from error
    return _report(logs)


def _texts(logs: Iterable[LogFile]) -> Iterator[str]:
    for log in logs:
        yield f"# {log.path}"
        yield from map(rendering.text, log.transactions())


def _json_lines(logs: Iterable[LogFile]) -> Iterator[str]:
    for log in logs:
        yield from map(rendering.json_line, log.transactions())


def _write(lines: Iterable[str], file: TextIO) -> None:
    for line in lines:
        print(line, file=file)
    file.flush()


def _as_parquet(lines: Iterable[str], output: Path, write_parquet: WriteParquet) -> None:
    with tempfile.TemporaryDirectory(prefix="tidegate-binlog-") as scratch:
        json_lines = Path(scratch) / "transactions.jsonl"
        with json_lines.open("w", encoding="utf-8") as file:
            _write(lines, file)
        write_parquet(json_lines, output)


def _report(logs: Iterable[LogFile]) -> int:
    status = 0
    for log in logs:
        if log.unknown:
            counts = ", ".join(f"{count} of type {kind}" for kind, count in log.unknown.items())
            print(f"tidegate: {log.path}: skipped events: {counts}", file=sys.stderr)
        if log.damage:
            print(f"tidegate: {log.path}: {log.damage}", file=sys.stderr)
            status = 1
    return status
