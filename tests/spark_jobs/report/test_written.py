"""The files that a report is."""

from pathlib import Path

from spark_jobs.day import Day
from spark_jobs.findings.results import Results
from spark_jobs.report import written
from tests.spark_jobs.found import findings, summary


def test_a_report_is_two_files(tmp_path: Path) -> None:
    page = written.write(findings(log="half \ud800"), tmp_path)
    assert page == tmp_path / "report.html"
    assert page.read_text().startswith("<!doctype html>")
    assert str(page) in (tmp_path / "report.md").read_text()
    place = tmp_path / "later"
    assert written.write(findings(), tmp_path, place=place) == page
    told = (tmp_path / "report.md").read_text()
    assert f"`{place}/report.html`" in told
    assert str(page) not in told
    written.remove(tmp_path)
    assert not list(tmp_path.iterdir())
    written.remove(tmp_path)


def test_the_newest_judgement_of_each_day_is_a_night(tmp_path: Path) -> None:
    assert written.kept(Results(tmp_path)) == []
    results = Results(tmp_path)
    for date, judgement in (("2026-11-30", 1), ("2026-11-30", 2), ("2026-11-29", 1)):
        made = summary(date, judgement=judgement, version=1)
        results.keep(results.stage(Day.parse(date)), Day.parse(date), made)
    nights = written.kept(results)
    assert [(night.date, night.judgement) for night in nights] == [
        *(("2026-11-29", 1), ("2026-11-30", 2))
    ]
    page = written.write(findings(), tmp_path, nights)
    assert "2026-11-29: 0" in page.read_text()
