"""What is told of two runs of a suite."""

import re
from pathlib import Path

import pytest

from tests.clients import report
from tests.clients.environment import INSIDE
from tests.clients.inside import tidegate_recording
from tests.clients.results import Comparison, Outcome, Results
from tests.clients.suite import Invocation, Suite, Target


def results(**tests: str) -> Results:
    return Results({test: Outcome(outcome, f"{test}!") for test, outcome in tests.items()}, 42)


DIRECT = results(same="passed", worse="passed", gone="passed", known="passed", broken="failed")
TIDEGATE = results(same="passed", worse="failed", known="failed", broken="passed", new="failed")
COMPARISON = Comparison(DIRECT, TIDEGATE, {"now": "a reason"})


def test_differences() -> None:
    assert COMPARISON.differences == ["worse", "gone", "known", "broken", "new"]
    assert COMPARISON.worse == ["worse", "gone", "known"]
    assert COMPARISON.unexplained == ["worse", "gone"]
    assert "worse: passed directly, failed through Tidegate\n    worse!\n" in COMPARISON.text
    assert "gone: passed directly, missing through Tidegate" in COMPARISON.text
    assert "known: a reason" in COMPARISON.text


def test_an_error_may_be_known() -> None:
    compared = Comparison(DIRECT, TIDEGATE, {"worse!": "a reason"})
    assert compared.unexplained == ["gone", "known"]


def test_a_record_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_RECORD", str(tmp_path / "record"))
    tidegate_recording.record("f[<A at 0x7f01>]", "passed")
    tidegate_recording.record("g", "passed")
    tidegate_recording.record("g", "failed", "in its teardown")
    tidegate_recording.record("g", "passed")
    read = Results.read(tmp_path / "record")
    assert read.tests == {
        "f[<A>]": Outcome("passed", ""),
        "g": Outcome("failed", "in its teardown"),
    }
    both = Results(read.tests, 17)
    both.write(tmp_path / "again")
    assert Results.read(tmp_path / "again") == both


@pytest.mark.parametrize("recorder", ["node.cjs", "Jdbc.java", "mysql2.rb"])
def test_recorders_in_other_languages_write_the_same_fields(recorder: str) -> None:
    text = (INSIDE / recorder).read_text(encoding="utf-8")
    for field in ("id", "outcome", "detail"):
        assert re.search(rf'\b{field}\b(\\"|): ', text), field


def suite(name: str) -> Suite:
    return Suite(name, f"the tests of {name}", "1.0", (), lambda: None, _invocation)


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "page.md"
    path.write_text(f"before\n{report._BEGIN}{report._END}after\n")
    monkeypatch.setattr(report, "PAGE", path)
    return path


def test_the_page_gets_the_tables_and_keeps_the_rest(page: Path) -> None:
    report.write([suite("driver")], {"driver": COMPARISON}, "9.7.4-2", "2026-11-22")
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "| driver | 1.0 | 9.7.4, 2026-11-22 | 5 | 4 | 1 | 3 | 42 |\n" in text
    assert "- **driver**: the tests of driver.\n" in text
    assert "- **driver**: a reason\n  - `known`\n" in text
    assert "- **driver**: not known yet\n  - `worse`\n  - `gone`\n" in text
    report.write([suite("driver")], {"driver": COMPARISON}, "9.7.4-2", "2026-11-22")
    assert page.read_text() == text


def test_what_did_not_run_again_keeps_what_the_page_says_of_it(page: Path) -> None:
    first, second, never = suite("first"), suite("second"), suite("never")
    suites = [first, second, never]
    report.write([second], {"second": COMPARISON}, "9.7.4-2", "2026-11-21")
    report.write(suites, {"first": Comparison(DIRECT, DIRECT, {})}, "9.7.5-1", "2026-11-22")
    text = page.read_text()
    assert (
        "| first | 1.0 | 9.7.5, 2026-11-22 | 5 | 4 | 4 | none | 42 |\n"
        "| second | 1.0 | 9.7.4, 2026-11-21 | 5 | 4 | 1 | 3 | 42 |\n\n"
    ) in text
    assert "- **first**: the tests of first.\n- **second**: the tests of second.\n\n" in text
    assert "- **second**: a reason\n  - `known`\n" in text
    assert "never" not in text
    report.write([first], {}, "9.7.5-1", "2026-11-22")  # a suite that is gone is gone from here
    text = page.read_text()
    assert "second" not in text
    assert "What differs:\n\nNothing.\n" in text


def _invocation(target: Target) -> Invocation:
    return Invocation((target.name,), Path())
