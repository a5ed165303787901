"""Metrics in a text file."""

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from spark_jobs.report import textfile
from spark_jobs.verdict import Finding, Verdict
from tests.spark_jobs.found import GTID, findings, lost, run, verdict

Sample = tuple[str, frozenset[tuple[str, str]]]


def samples(path: Path) -> dict[Sample, float]:
    return {
        (
            sample.name.removeprefix("tidegate_audit_"),
            frozenset(sample.labels.items()),
        ): sample.value
        for family in text_string_to_metric_families(path.read_text())
        for sample in family.samples
    }


def test_an_audit_in_figures(tmp_path: Path) -> None:
    path = tmp_path / "tidegate.prom"
    found = findings(
        verdicts=[
            verdict(Verdict.OK, Finding.KNOWN, 5),
            verdict(Verdict.VIOLATION, Finding.NO_PROOF, 3),
            verdict(Verdict.NOT_JUDGED, Finding.UNBACKED, 2, "STRONG"),
        ],
        lost=[lost(gtids=f"{GTID}:1-3"), lost(gtids=f"{GTID}:3-4")],
        lapsed=7,
        runs=[run(), run(to_us=5)],
    )
    textfile.write(path, log="/log", exit_code=1, begun_s=1.8e9, duration_s=61.5, findings=found)
    told = samples(path)
    log = frozenset({("log", "/log")})
    figures = {name: value for (name, labels), value in told.items() if labels == log}
    assert figures == {
        "last_run_timestamp_seconds": 1.8e9,
        "duration_seconds": 61.5,
        "exit_code": 1,
        "violations": 3,
        "coverage_ratio": 0.8,
        "lost_transactions": 4,
        "unreported_transactions": 0,
        "lapses": 7,
        "newest_record_timestamp_seconds": 86_400 - 1e-6,
    }
    own = {("log", "/log"), ("level", "READ_OWN_WRITES"), ("scope", "connection")}
    assert told["reads", frozenset(own | {("verdict", "violation")})] == 3
    assert told["reads", frozenset(own | {("verdict", "not judged")})] == 0
    assert len(told) == len(figures) + 2 * len(Verdict)


def test_an_audit_that_could_not_judge_tells_nothing_of_an_earlier_one(tmp_path: Path) -> None:
    path = tmp_path / "tidegate.prom"
    textfile.write(path, log="/log", exit_code=0, begun_s=1, duration_s=1, findings=findings())
    textfile.write(path, log="/log", exit_code=2, begun_s=2, duration_s=1)
    assert {name: value for (name, _), value in samples(path).items()} == {
        "last_run_timestamp_seconds": 2,
        "duration_seconds": 1,
        "exit_code": 2,
    }
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_log_says_is_one_label(tmp_path: Path) -> None:
    path = tmp_path / "tidegate.prom"
    hostile = 'a"} 1\ntidegate_audit_exit_code{log="\\'
    found = findings(verdicts=[verdict(Verdict.OK, Finding.KNOWN, 5, hostile, hostile)])
    textfile.write(path, log=hostile, exit_code=1, begun_s=1, duration_s=1, findings=found)
    told = samples(path)
    assert told["exit_code", frozenset({("log", hostile)})] == 1
    of = {"log": hostile, "level": hostile, "scope": hostile, "verdict": "ok"}
    assert told["reads", frozenset(of.items())] == 5
    assert len([name for name, _ in told if name == "exit_code"]) == 1


def test_a_file_that_cannot_be_written_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tidegate.prom"
    path.write_text("before\n")
    path.chmod(0o644)

    def full(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.rename", full)
    with pytest.raises(OSError, match="disk full"):
        textfile.write(path, log="/log", exit_code=0, begun_s=1, duration_s=1)
    assert path.read_text() == "before\n"
    with pytest.raises(OSError, match="nowhere"):
        textfile.write(tmp_path / "nowhere" / "x", log="", exit_code=0, begun_s=1, duration_s=1)
