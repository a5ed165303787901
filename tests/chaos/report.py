"""The figures of a campaign, as a table of Markdown, and the page that keeps them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from routing.consistency.decision import Level
from tests.chaos.scene import Fault

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"
_BEGIN, _END = "<!-- {}: written by ./dev chaos --write -->", "<!-- end of {} -->"
_ABBREVIATED = {
    Level.BEST_EFFORT: "BE",
    Level.BOUNDED_STALENESS: "BS",
    Level.READ_OWN_WRITES: "ROW",
    Level.MONOTONIC_READS: "MR",
    Level.READ_ALL_WRITES: "RAW",
    Level.STRONG: "S",
}


@dataclass
class Row:
    """What was counted while one fault was upon the cluster, in all its trials.

    Attributes:
        trials: how often.
        levels: reads that were answered and judged, by level.
        writes: writes that were acknowledged.
        lost: of these, those that the fault lost, as it may.
        violations: what must not have been.
        errors: what clients saw, by code.
        fallbacks: reads that left a replica.
        on_replicas: statements that replicas answered.
        slowest: the read that took longest, seconds.
    """

    trials: int = 0
    levels: Counter[Level] = field(default_factory=Counter)
    writes: int = 0
    lost: int = 0
    violations: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    fallbacks: int = 0
    on_replicas: int = 0
    slowest: float = 0.0

    def add(self, other: "Row") -> None:
        """Enter another one's figures."""
        self.trials += other.trials
        self.levels += other.levels
        self.writes += other.writes
        self.lost += other.lost
        self.violations += other.violations
        self.errors += other.errors
        self.fallbacks += other.fallbacks
        self.on_replicas += other.on_replicas
        self.slowest = max(self.slowest, other.slowest)


def table(rows: dict[str, Row]) -> str:
    """One line for each fault, and one for all."""
    total = Row()
    for row in rows.values():
        total.add(row)
    head = ["fault", "trials", *_ABBREVIATED.values(), "writes", "lost", "violations"]
    head += ["on replicas", "fallbacks", "slowest read", "errors that clients saw"]
    lines = [head, ["---", *["---:"] * (len(head) - 2), "---"]]
    lines += [_cells(name, row) for name, row in rows.items()]
    lines.append(_cells("**all**", total))
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cells(name: str, row: Row) -> list[str]:
    counts = [row.trials, *(row.levels[level] for level in _ABBREVIATED), row.writes, row.lost]
    reads = sum(row.levels.values())
    share = f"{min(1, row.on_replicas / reads):.0%}" if reads else ""
    errors = ", ".join(f"{code}: {count}" for code, count in row.errors.most_common(6))
    return [
        *(name, *map(str, counts), str(row.violations)),
        *(share, str(row.fallbacks), f"{row.slowest:.1f} s", errors),
    ]


LEGEND = "; ".join(f"{short}: {level}" for level, short in _ABBREVIATED.items())


def explanation(faults: Iterable[Fault]) -> str:
    """What each fault does, and what clients must expect."""
    lines = ["| fault | what happens | what is not promised meanwhile |", "|---|---|---|"]
    lines += [f"| `{fault.name}` | {fault.does} | {fault.not_promised} |" for fault in faults]
    return "\n".join(lines)


def write(sections: dict[str, str], page: Path = PAGE) -> None:
    """Put texts between the page's marks of the same names.

    Raises:
        ValueError: the page has no such mark.
    """
    text = page.read_text()
    for name, section in sections.items():
        begin, end = _BEGIN.format(name), _END.format(name)
        head, found, rest = text.partition(begin)
        _, ended, tail = rest.partition(end)
        if not found or not ended:
            raise ValueError(f"{page} has no marks {begin} and {end}")
        text = f"{head}{begin}\n\n{section}\n\n{end}{tail}"
    page.write_text(text)
