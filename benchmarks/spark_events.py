"""What an audit made Spark do: jobs, stages, tasks, skew, and what came to the driver.

Read from the log of events that Spark writes with ``spark.eventLog.enabled`` (not rolling, not
compressed) in the ``spark-defaults.conf`` of `SPARK_CONF_DIR`:

    SPARK_CONF_DIR=settings tidegate audit --log LOG --out OUT
    python -m benchmarks.spark_events EVENTS/local-…
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_LONG_S: Final = 1.0
"""Stages of less processor time are not asked how even their tasks are."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one application.

    Attributes:
        jobs: jobs.
        stages: stages that had a task.
        tasks: tasks.
        cpu_s: processor time of all tasks in Java, s; Python workers are not in it.
        skew: the longest task of a stage, in its share of all of the stage's time; the greatest of
            the long stages. A stage of one task has 1.
        shuffled: bytes that tasks wrote for other tasks.
        collected: bytes of the tasks' results, which all come to the driver.
    """

    jobs: int
    stages: int
    tasks: int
    cpu_s: float
    skew: float
    shuffled: int
    collected: int


def figures(lines: Iterable[str]) -> Figures:
    """Sum up a log of events.

    Raises:
        ValueError: a line is no event.
    """
    jobs = shuffled = collected = 0
    stages: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
    for line in lines:
        event = json.loads(line)
        if event["Event"] == "SparkListenerJobStart":
            jobs += 1
        elif event["Event"] == "SparkListenerTaskEnd":
            metrics = event.get("Task Metrics") or {}
            cpu_s = metrics.get("Executor CPU Time", 0) / 1e9
            stages[event["Stage ID"]].append((cpu_s, metrics.get("Executor Run Time", 0) / 1e3))
            shuffled += metrics.get("Shuffle Write Metrics", {}).get("Shuffle Bytes Written", 0)
            collected += metrics.get("Result Size", 0)
    long = [tasks for tasks in stages.values() if sum(cpu for cpu, _ in tasks) >= _LONG_S]
    return Figures(
        jobs=jobs,
        stages=len(stages),
        tasks=sum(map(len, stages.values())),
        cpu_s=sum(cpu for tasks in stages.values() for cpu, _ in tasks),
        skew=max(
            (max(run for _, run in tasks) / sum(run for _, run in tasks) for tasks in long),
            default=0.0,
        ),
        shuffled=shuffled,
        collected=collected,
    )


def main() -> None:
    """Print the figures of the named logs, a row of a table each."""
    print(
        "| log | jobs | stages | tasks | tasks' CPU, s | skew | shuffled, MB | to the driver, MB |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name in sys.argv[1:]:
        with Path(name).open(encoding="utf-8") as file:
            found = figures(file)
        print(
            f"| {Path(name).name} | {found.jobs} | {found.stages} | {found.tasks} "
            f"| {found.cpu_s:.1f} | {found.skew:.2f} | {found.shuffled / 1e6:.1f} "
            f"| {found.collected / 1e6:.1f} |"
        )


if __name__ == "__main__":
    main()
