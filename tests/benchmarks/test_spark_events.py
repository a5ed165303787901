"""Figures of an application, from Spark's events."""

import json

from benchmarks.spark_events import Figures, figures


def task(stage: int, cpu_s: float, run_s: float) -> str:
    metrics = {
        "Executor CPU Time": cpu_s * 1e9,
        "Executor Run Time": run_s * 1e3,
        "Shuffle Write Metrics": {"Shuffle Bytes Written": 10},
        "Result Size": 3,
    }
    event = {"Event": "SparkListenerTaskEnd", "Stage ID": stage, "Task Metrics": metrics}
    return json.dumps(event)


def test_figures() -> None:
    job = json.dumps({"Event": "SparkListenerJobStart", "Job ID": 0})
    lost = json.dumps({"Event": "SparkListenerTaskEnd", "Stage ID": 7})
    # The stage of one task is short: its skew does not count.
    tasks = [task(0, 1.0, 3.0), task(0, 1.0, 1.0), task(1, 0.5, 9.0)]
    assert figures([job, *tasks, job, lost]) == Figures(
        jobs=2, stages=3, tasks=4, cpu_s=2.5, skew=0.75, shuffled=30, collected=9
    )
    assert figures([]).skew == 0.0
