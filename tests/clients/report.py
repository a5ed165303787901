"""The tables of docs/compatibility.md."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.clients.results import Comparison
from tests.clients.suite import Suite

PAGE = Path(__file__).resolve().parents[2] / "docs" / "compatibility.md"

_BEGIN = "<!-- written by python -m tests.clients.run --write -->\n"
_END = "<!-- end -->\n"


def write(comparisons: Mapping[Suite, Comparison], server: str) -> None:
    """Put the results between the marks of the page, in the place of what is there."""
    head, _, rest = PAGE.read_text().partition(_BEGIN)
    _, _, tail = rest.partition(_END)
    PAGE.write_text(head + _BEGIN + tables(comparisons, server) + _END + tail)


def tables(comparisons: Mapping[Suite, Comparison], server: str) -> str:
    """The results in Markdown: a table of suites, and a list of tests that differ."""
    lines = [
        "",
        f"On MySQL {server.partition('-')[0]}:",
        "",
        "| suite | versions | tests | pass directly | of these, pass through Tidegate | differ"
        " | statements that replicas answered |",
        "|---|---|---|---|---|---|---|",
    ]
    for suite, compared in comparisons.items():
        passed = compared.direct.count("passed")
        lines.append(
            f"| {suite.name} | {suite.versions} | {len(compared.direct.tests)} | {passed}"
            f" | {passed - len(compared.worse)} | {len(compared.worse) or 'none'}"
            f" | {compared.tidegate.replica_reads} |"
        )
    lines += ["", "What the suites are:", ""]
    lines += [f"- **{suite.name}**: {suite.what}." for suite in comparisons]
    lines += ["", "What differs:", ""]
    for suite, compared in comparisons.items():
        reasons: dict[str, list[str]] = {}
        for test in compared.worse:
            reasons.setdefault(compared.reason(test) or "not known yet", []).append(test)
        for reason, tests in reasons.items():
            lines.append(f"- **{suite.name}**: {reason}")
            lines += [f"  - `{test}`" for test in tests]
    if not any(compared.worse for compared in comparisons.values()):
        lines.append("Nothing.")
    return "\n".join([*lines, "", ""])
