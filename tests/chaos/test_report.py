"""The table, and the page that keeps it."""

from collections import Counter
from pathlib import Path

import pytest

from routing.consistency.decision import Level
from tests.chaos.faults import FAULTS
from tests.chaos.report import PAGE, Row, explanation, table, write


def test_a_row_for_each_fault_and_one_for_all() -> None:
    first = Row(2, Counter({Level.STRONG: 4}), 7, 0, 1, Counter({"2013": 2}), 3, 2, 0.25)
    second = Row(1, Counter({Level.STRONG: 4}), 1, 5, 0, Counter({"2013": 1}), 0, 0, 1.5)
    _, _, *lines = table({"calm": first, "storm": second}).splitlines()
    assert lines == [
        "| calm | 2 | 0 | 0 | 0 | 0 | 0 | 4 | 7 | 0 | 1 | 50% | 3 | 0.2 s | 2013: 2 |",
        "| storm | 1 | 0 | 0 | 0 | 0 | 0 | 4 | 1 | 5 | 0 | 0% | 0 | 1.5 s | 2013: 1 |",
        "| **all** | 3 | 0 | 0 | 0 | 0 | 0 | 8 | 8 | 5 | 1 | 25% | 3 | 1.5 s | 2013: 3 |",
    ]


def test_only_what_is_between_the_marks_is_written(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    begin, end = "<!-- run: written by ./dev chaos --write -->", "<!-- end of run -->"
    page.write_text(f"before\n{begin}\nold\n{end}\nafter\n")
    write({"run": "new"}, page)
    write({"run": "newer"}, page)
    assert page.read_text() == f"before\n{begin}\n\nnewer\n\n{end}\nafter\n"
    with pytest.raises(ValueError, match="no marks"):
        write({"faults": "new"}, page)


def test_the_page_tells_of_every_fault() -> None:
    assert explanation(FAULTS.values()) in PAGE.read_text()


def test_every_fault_says_what_it_does() -> None:
    assert all(fault.does and fault.not_promised for fault in FAULTS.values())
