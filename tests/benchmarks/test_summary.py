import dataclasses
import json

import pytest

from benchmarks import report
from benchmarks.measurement import Measurement
from benchmarks.summary import ratio, summarise
from benchmarks.target import judge


def measurement(contender: str, number: int, cpu: float | None, **figures: object) -> Measurement:
    usual = Measurement(
        contender=contender,
        workload="point-select",
        round=number,
        queries=1000,
        queries_per_second=100.0,
        cpu_us_per_query=cpu,
        p50_us=10.0,
        p99_us=20.0,
        reads_on_primary=1.0,
        reads=0,
        stale=0,
        fallbacks=None,
        failed_starts=0,
    )
    return dataclasses.replace(usual, **figures)


ROUNDS = [
    # the machine gets slower from round to round, for all contenders alike
    *(
        measurement("direct", n, None, queries_per_second=q)
        for n, q in ((1, 400), (2, 200), (3, 80))
    ),
    *(measurement("haproxy", n, cpu) for n, cpu in ((1, 20.0), (2, 30.0), (3, 50.0))),
    *(
        measurement("tidegate", n, cpu, probes_per_second=probes)
        for n, cpu, probes in ((1, 22.0, 50.0), (2, 33.0, 70.0), (3, 75.0, 20.0))
    ),
]


def test_medians_and_spread() -> None:
    summary = summarise(ROUNDS, "tidegate", "point-select")
    assert summary.rounds == 3
    assert summary.cpu_us_per_query == 33.0
    assert summary.cpu_spread_us == (22.0, 75.0)
    assert summary.throughput == 0.5  # of 1/4, 1/2 and 5/4
    assert summary.cpu_of_tidegate == 1.0
    assert summary.probes_per_second == 50.0
    direct = summarise(ROUNDS, "direct", "point-select")
    assert direct.cpu_us_per_query is direct.cpu_of_tidegate is direct.probes_per_second is None
    haproxy = summarise(ROUNDS, "haproxy", "point-select")
    assert haproxy.cpu_of_tidegate == pytest.approx(30 / 33)  # of 20/22, 30/33 and 50/75


def test_counts_are_summed() -> None:
    rounds = [
        measurement("tidegate", n, 1.0, reads=100, stale=n, fallbacks=10 * n, failed_starts=1)
        for n in (1, 2)
    ]
    summary = summarise(rounds, "tidegate", "point-select")
    assert (summary.reads, summary.stale, summary.fallbacks) == (200, 3, 30)
    assert summary.failed_starts == 2


def test_what_was_not_measured_has_no_summary() -> None:
    with pytest.raises(ValueError, match="router"):
        summarise(ROUNDS, "router", "point-select")


def test_ratios_compare_contenders_within_a_round() -> None:
    ratios = ratio(ROUNDS, "point-select", "cpu_us_per_query", "tidegate", "haproxy")
    assert ratios == pytest.approx(1.1)  # of 1.1, 1.1 and 1.5


def test_a_ratio_needs_a_round_of_both() -> None:
    lonely = [measurement("tidegate", 1, 22.0), measurement("haproxy", 2, 20.0)]
    assert ratio(lonely, "point-select", "cpu_us_per_query", "tidegate", "haproxy") is None


@pytest.mark.parametrize(("cpu", "met"), [(22.9, True), (23.1, False)])
def test_targets(cpu: float, met: bool) -> None:
    rounds = [measurement("haproxy", 1, 20.0), measurement("tidegate", 1, cpu)]
    (verdict,) = judge(rounds)
    assert verdict.target.most == 1.15
    assert verdict.measured == pytest.approx(cpu / 20)
    assert verdict.met is met


@pytest.mark.parametrize(("stale", "met"), [(0, True), (1, False)])
def test_one_stale_read_in_any_round_misses_the_target(stale: int, met: bool) -> None:
    rounds = [
        measurement("tidegate", n, 22.0, workload="write-read", stale=count)
        for n, count in ((1, 0), (2, stale), (3, 0))
    ]
    (verdict,) = judge(rounds)
    assert verdict.target.figure == "stale"
    assert verdict.met is met


def test_the_report_names_every_contender_and_target() -> None:
    text = report.render(ROUNDS)
    rows = [line.split() for line in text.splitlines()]
    row = [
        "tidegate",
        "33.0",
        "22.0-75.0",
        "1.00",
        "100",
        "0.50",
        "10",
        "20",
        "100%",
        "-",
        "-",
        "50",
    ]
    assert row in rows
    assert ["point-select", "tidegate", "/", "haproxy", "CPU", "1.10", "1.15", "met"] in rows


def test_the_json_holds_every_measurement() -> None:
    document = json.loads(report.to_json(ROUNDS, {"machine": {"processors": "2"}}))
    assert [Measurement(**measurement) for measurement in document["measurements"]] == ROUNDS
    assert document["machine"] == {"processors": "2"}
    assert len(document["summaries"]) == 3
    assert document["targets"][0]["met"] is True
