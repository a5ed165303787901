"""The audit's command line."""

from pathlib import Path

import pytest

from spark_jobs.day import Day
from spark_jobs.options import Options, UsageError, parse


def test_the_log_is_enough() -> None:
    assert parse(["--log", "a"]) == Options(log=Path("a"), out=Path("a/_audit"))
    assert parse(["--log", "a"]).min_coverage == 1


def test_a_log_that_only_spark_can_read_is_copied_beside_the_report() -> None:
    chosen = parse(["--log=s3a://bucket/tidegate", "--out=b"])
    assert chosen.log == "s3a://bucket/tidegate"
    assert chosen.name == "s3a://bucket/tidegate"
    assert parse(["--log=a"]).name == "a"


def test_results_may_be_where_only_spark_can_write() -> None:
    for out in ("s3a://bucket/audit", "s3a://bucket/log/_audit", "s3a://bucket/log2"):
        chosen = parse(["--log=s3a://bucket/log", f"--out={out}/", "--report=b"])
        assert (chosen.out, chosen.report_folder) == (out, Path("b"))
    assert parse(["--log=a", "--out=b"]).report_folder == Path("b")


def test_a_live_view_has_a_directory_of_its_own() -> None:
    chosen = parse(["--log=a", "--live"])
    assert (chosen.live, chosen.window, chosen.metrics) == (True, 1, None)
    assert chosen.out == Path("a/_audit/live")
    more = parse(["--log=a", "--live", "--window=6", "--metrics=[::1]:9478", "--out=b"])
    assert (more.window, more.metrics, more.out) == (6, ("::1", 9478), Path("b"))
    assert parse(["--log=a", "--live", "--metrics=:9478"]).metrics == ("0.0.0.0", 9478)


def test_everything_may_be_said() -> None:
    said = [
        "--log=a",
        "--out=b",
        "--min-coverage=0.999",
        "--clock-error=2.5",
        "--master=yarn",
        "--binlogs=c",
        "--date=2026-11-30",
    ]
    assert parse(said) == Options(
        log=Path("a"),
        out=Path("b"),
        day=Day.parse("2026-11-30"),
        master="yarn",
        binlogs=Path("c"),
        min_coverage=0.999,
        clock_error_us=2500,
    )


@pytest.mark.parametrize("out", [".", "date=2026-11-30", "there/../here"])
def test_nothing_is_written_among_segments(tmp_path: Path, out: str) -> None:
    (tmp_path / "date=2026-11-30").mkdir()
    (tmp_path / "there").mkdir()
    (tmp_path / "here").symlink_to("date=2026-11-30")
    with pytest.raises(UsageError, match="--out"):
        parse([f"--log={tmp_path}", f"--out={tmp_path / out}"])


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (["--log=a", "--min-coverage=1.1"], "want a number from 0 to 1"),
        (["--log=a", "--min-coverage=nan"], "want a number from 0 to 1"),
        (["--log=a", "--min-coverage=-0.1"], "want a number from 0 to 1"),
        (["--log=a", "--min-coverage=most"], "--min-coverage"),
        (["--log=a", "--live", "--date=today"], "leave out --date and --binlogs"),
        (["--log=a", "--live", "--binlogs=b"], "leave out --date and --binlogs"),
        (["--log=a", "--window=2"], "--window and --metrics go with --live"),
        (["--log=a", "--metrics=:1"], "--window and --metrics go with --live"),
        (["--log=a", "--live", "--window=0"], "want 1 to 48 hours"),
        (["--log=a", "--live", "--metrics=9478"], "want HOST:PORT"),
        (["--log=a", "--live", "--metrics=a:65536"], "want HOST:PORT"),
        (["--log=a", "--live", "--metrics=a:"], "want HOST:PORT"),
        (["--log=a", "--date=tomorrow"], "want YYYY-MM-DD, yesterday or today"),
        (["--log=a", "--clock-error=-1"], "want milliseconds"),
        (["--log=a", "--clock-error=inf"], "want milliseconds"),
        (["--log=s3a://logs/tidegate"], "s3a://logs/tidegate needs --out"),
        (["--log=s3a:a", "--out=b"], "want SCHEME:/"),
        (["--log=a", "--binlogs=s3a://b"], "is no directory of this machine: mount it"),
        (["--log=a", "--report=hdfs:/audit"], "is no directory of this machine: mount it"),
        (["--log=a", "--out=hdfs:/audit"], "hdfs:/audit needs --report"),
        (["--log=a", "--out=hdfs:/audit", "--report=b", "--live"], "--live needs a directory"),
        (["--log=a", "--out=hdfs:/audit", "--report=a"], "--report a holds segments"),
        (["--log=a", "--out=b", "--report=c"], "--report goes with a URI"),
        (["--log=hdfs:/a", "--out=hdfs:/a/", "--report=b"], "is in the log"),
        (
            ["--log=hdfs:/a", "--out=hdfs:/a/b", "--report=b"],
            "such as hdfs:/a/_audit",
        ),
        (["--log=file:a"], "is no directory, and no URI"),
        (["--log=a", "more"], "unrecognized arguments: more"),
        ([], "--log"),
    ],
)
def test_what_is_not_understood_is_told(said: list[str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        parse(said)


def test_files_may_be_named_as_spark_names_them(tmp_path: Path) -> None:
    assert parse(["--log", "file:///a/b%20c", "--out=file:/d"]) == Options(
        log=Path("/a/b c"), out=Path("/d")
    )
    localhost = parse(["--log", "file://localhost/a%23b%25%5Bc%5D", "--out=/d #1 100% [x]"])
    assert (localhost.log, localhost.out) == (Path("/a#b%[c]"), Path("/d #1 100% [x]"))
    odd = tmp_path / "s3a:logs"
    odd.mkdir()
    assert parse(["--log", str(odd)]).log == odd
