"""The table of docs/compatibility.md, which is written suite by suite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.clients.results import Comparison
from tests.clients.suite import Suite

PAGE = Path(__file__).resolve().parents[2] / "docs" / "compatibility.md"

_BEGIN = "<!-- written by python -m tests.clients.run --write -->\n"
_END = "<!-- end -->\n"
_TABLE = (
    "| suite | versions | MySQL, date | tests | pass directly | of these, pass through Tidegate"
    " | differ | statements that replicas answered |",
    "|---|---|---|---|---|---|---|---|",
)
_DIFFERS = "What differs:"


@dataclass
class _Entry:
    """A suite's lines: its row of the table, and the list of what differs."""

    row: str
    differences: list[str] = field(default_factory=list)


def write(
    suites: Sequence[Suite], compared: Mapping[str, Comparison], server: str, day: str
) -> None:
    """Put results between the marks of the page; what was not run keeps what stands there.

    Args:
        suites: in the order of the table; what the page says of others goes.
        compared: the new results, by the suites' names.
        server: what MySQL says of its version.
        day: when they ran, for people.
    """
    head, _, rest = PAGE.read_text().partition(_BEGIN)
    before, _, tail = rest.partition(_END)
    entries = _read(before)
    for suite in suites:
        if suite.name in compared:
            on = f"{server.partition('-')[0]}, {day}"
            entries[suite.name] = _entry(suite, compared[suite.name], on)
    shown = [suite for suite in suites if suite.name in entries]
    differences = [line for suite in shown for line in entries[suite.name].differences]
    lines = ["", *_TABLE, *(entries[suite.name].row for suite in shown)]
    lines += ["", "What the suites are:", ""]
    lines += [f"- **{suite.name}**: {suite.title}." for suite in shown]
    lines += ["", _DIFFERS, "", *(differences or ["Nothing."]), "", ""]
    PAGE.write_text(head + _BEGIN + "\n".join(lines) + _END + tail)


def _entry(suite: Suite, compared: Comparison, on: str) -> _Entry:
    passed = compared.direct.count("passed")
    entry = _Entry(
        f"| {suite.name} | {suite.versions} | {on} | {len(compared.direct.tests)} | {passed}"
        f" | {passed - len(compared.worse)} | {len(compared.worse) or 'none'}"
        f" | {compared.tidegate.replica_reads} |"
    )
    reasons: dict[str, list[str]] = {}
    for test in compared.worse:
        reasons.setdefault(compared.reason(test) or "not known yet", []).append(test)
    for reason, tests in reasons.items():
        entry.differences.append(f"- **{suite.name}**: {reason}")
        entry.differences += [f"  - `{test}`" for test in tests]
    return entry


def _read(text: str) -> dict[str, _Entry]:
    """What the page says of each suite, by its name."""
    table, _, differences = text.partition(f"{_DIFFERS}\n")
    rows = [line for line in table.splitlines() if line.startswith("| ")]
    entries = {line.split(" | ")[0].removeprefix("| "): _Entry(line) for line in rows[1:]}
    name = ""
    for line in differences.splitlines():
        if line.startswith("- **"):
            name = line.removeprefix("- **").partition("**")[0]
        if line.startswith(("- **", "  - ")):
            entries[name].differences.append(line)
    return entries
