"""The figures as tables for people, and as JSON for programs."""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.measurement import Measurement
from benchmarks.summary import Summary, summarise
from benchmarks.target import PREPARED_MOST, judge, prepared_against_text
from benchmarks.workload import WORKLOADS, Workload

_HEADINGS = (
    *("contender", "CPU µs/query", "least-most", "tidegate = 1", "queries/s", "direct = 1"),
    *("p50 µs", "p99 µs", "on primary", "stale", "fallbacks", "probes/s"),
)


def machine() -> dict[str, str]:
    """The machine on which the figures were measured."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    return {
        "processors": f"{os.cpu_count()} x {model}",
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load": " ".join(f"{value:.1f}" for value in os.getloadavg()),
    }


def render(measurements: Sequence[Measurement]) -> str:
    """A table for every workload, and how the targets were met."""
    parts = []
    for workload in WORKLOADS:
        names = dict.fromkeys(m.contender for m in measurements if m.workload == workload.name)
        if names:
            summaries = [summarise(measurements, name, workload.name) for name in names]
            parts.append(_render_workload(workload, summaries))
    parts.append(_render_targets(measurements))
    return "\n\n".join(part for part in parts if part)


def to_json(measurements: Sequence[Measurement], about: Mapping[str, Mapping[str, str]]) -> str:
    """All measurements, their medians, and the machine and versions in `about`."""
    keys = dict.fromkeys((m.contender, m.workload) for m in measurements)
    return json.dumps(
        {
            **about,
            "summaries": [asdict(summarise(measurements, *key)) for key in keys],
            "targets": [
                {**asdict(verdict.target), "measured": verdict.measured, "met": verdict.met}
                for verdict in judge(measurements)
            ],
            "measurements": [asdict(measurement) for measurement in measurements],
        },
        indent=1,
    )


def _render_workload(workload: Workload, summaries: Sequence[Summary]) -> str:
    rounds = summaries[0].rounds
    title = (
        f"{workload.title}: {workload.connections} connection"
        f"{'s' if workload.connections > 1 else ''}, medians of {rounds} round"
        f"{'s' if rounds > 1 else ''}"
    )
    notes = [
        f"{s.contender}: {s.failed_starts} runs were begun again because a client got an error"
        for s in summaries
        if s.failed_starts
    ]
    return "\n".join([title, _table([_HEADINGS, *map(_row, summaries)]), *notes])


def _row(s: Summary) -> tuple[str, ...]:
    spread = "-" if s.cpu_spread_us is None else "{:.1f}-{:.1f}".format(*s.cpu_spread_us)
    return (
        s.contender,
        _number(s.cpu_us_per_query, 1),
        spread,
        _number(s.cpu_of_tidegate, 2),
        _number(s.queries_per_second, 0),
        _number(s.throughput, 2),
        _number(s.p50_us, 0),
        _number(s.p99_us, 0),
        "-" if s.reads_on_primary is None else f"{s.reads_on_primary:.0%}",
        f"{s.stale}/{s.reads}" if s.reads else "-",
        _number(s.fallbacks, 0),
        _number(s.probes_per_second, 0),
    )


_FIGURES = {"cpu_us_per_query": "CPU", "p50_us": "p50", "p99_us": "p99 µs", "stale": "stale"}


def _render_targets(measurements: Sequence[Measurement]) -> str:
    rows = [
        (
            verdict.target.workload,
            " / ".join(filter(None, (verdict.target.contender, verdict.target.peer))),
            _FIGURES[verdict.target.figure],
            _number(verdict.measured, 2 if verdict.target.peer else 0),
            _number(verdict.target.most, 2 if verdict.target.peer else 0),
            "met" if verdict.met else "missed",
        )
        for verdict in judge(measurements)
    ]
    prepared = prepared_against_text(measurements, "tidegate")
    if prepared is not None:
        met = "met" if prepared <= PREPARED_MOST else "missed"
        measured, most = _number(prepared, 2), _number(PREPARED_MOST, 2)
        rows.append(("prepared", "tidegate / its text", "CPU", measured, most, met))
    if not rows:
        return ""
    headings = ("workload", "of", "figure", "measured", "at most", "target")
    return "Targets\n" + _table([headings, *rows])


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
