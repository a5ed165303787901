"""The pages' links lead somewhere, and the files that they name are there."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("examples/**/*.md")])
NAMING = [
    page
    for page in PAGES
    if page.stem in ("glossary", "architecture") and page.parent.name == "docs"
]
"""Pages that name each file by its whole path."""

_CODE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
_FILE = re.compile(
    r"`((?:protocol|routing|proxy|spark_jobs|mysql_mocker|tidegate|tests|benchmarks|docs|scripts)"
    r"/[\w./-]*)`"
)


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@cache
def text_of(page: Path) -> str:
    return _CODE.sub("", page.read_text())


@cache
def anchors(page: Path) -> set[str]:
    """The names that GitHub gives the headings of a page."""
    found: set[str] = set()
    for heading in _HEADING.findall(text_of(page)):
        shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", shown).replace(" ", "-")
        number, free = 0, slug
        while free in found:
            number += 1
            free = f"{slug}-{number}"
        found.add(free)
    return found


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in _LINK.findall(text_of(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


@pytest.mark.parametrize("page", NAMING, ids=name)
def test_the_files_that_a_page_names_are_there(page: Path) -> None:
    named = set(_FILE.findall(text_of(page)))
    assert named
    assert not {path for path in named if not (ROOT / path).exists()}


def test_each_alert_has_an_entry_in_the_runbook() -> None:
    rules = "".join(path.read_text() for path in sorted((ROOT / "dashboards/rules").glob("*.yml")))
    alerts = set(re.findall(r"alert: (\w+)", rules))
    entries = set(re.findall(r"^### (\w+)$", (ROOT / "docs/operations.md").read_text(), re.M))
    assert alerts
    assert entries == alerts
