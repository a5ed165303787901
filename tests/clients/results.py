"""The outcomes of a suite's tests, and how two runs compare."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.real_mysql.template import CACHE

RESULTS = CACHE / "clients" / "results"
"""Where the last results of each suite are kept, beside what it printed."""

_WORSE = {"passed": 0, "skipped": 1, "failed": 2}


@dataclass(frozen=True)
class Outcome:
    """How a test ended: passed, failed or skipped; and what it printed if it did not pass."""

    name: str
    detail: str


@dataclass(frozen=True)
class Results:
    """What became of one run.

    Attributes:
        tests: the outcomes by the tests' names.
        replica_reads: how many statements replicas have answered.
    """

    tests: Mapping[str, Outcome]
    replica_reads: int = 0

    @classmethod
    def read(cls, path: Path) -> Results:
        """Read a record (``inside/tidegate_recording.py``); of two of a name the worse counts."""
        tests: dict[str, Outcome] = {}
        replica_reads = 0
        for line in path.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            if "replica_reads" in entry:
                replica_reads = entry["replica_reads"]
                continue
            outcome = Outcome(entry["outcome"], entry["detail"])
            before = tests.get(entry["id"])
            if before is None or _WORSE[outcome.name] > _WORSE[before.name]:
                tests[entry["id"]] = outcome
        return cls(tests, replica_reads)

    def write(self, path: Path) -> None:
        """Write a record."""
        lines = [json.dumps({"replica_reads": self.replica_reads})]
        lines += [
            json.dumps({"id": test, "outcome": outcome.name, "detail": outcome.detail})
            for test, outcome in self.tests.items()
        ]
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def count(self, outcome: str) -> int:
        """How many tests ended so."""
        return sum(found.name == outcome for found in self.tests.values())

    def outcome(self, test: str) -> str:
        """How a test ended; ``missing`` if it did not run."""
        return self.tests[test].name if test in self.tests else "missing"


@dataclass(frozen=True)
class Comparison:
    """The same suite, run twice.

    Attributes:
        direct: at the primary.
        tidegate: through the proxy.
        known: what a test's name, or its error through Tidegate, may contain, with the reason for
            it to end otherwise.
    """

    direct: Results
    tidegate: Results
    known: Mapping[str, str]

    @property
    def differences(self) -> list[str]:
        """The tests that ended otherwise through Tidegate, in the order of the direct run."""
        more = [test for test in self.tidegate.tests if test not in self.direct.tests]
        return [
            test
            for test in [*self.direct.tests, *more]
            if self.direct.outcome(test) != self.tidegate.outcome(test)
        ]

    @property
    def worse(self) -> list[str]:
        """Those of them that passed directly."""
        return [test for test in self.differences if self.direct.outcome(test) == "passed"]

    @property
    def unexplained(self) -> list[str]:
        """Those of `worse` for which no reason is known."""
        return [test for test in self.worse if self.reason(test) is None]

    def reason(self, test: str) -> str | None:
        """The known reason for a test to differ."""
        texts = test, self._error(test)
        return next(
            (why for part, why in self.known.items() if any(part in text for text in texts)), None
        )

    def _error(self, test: str) -> str:
        return self.tidegate.tests[test].detail if test in self.tidegate.tests else ""

    @property
    def text(self) -> str:
        """The differences for a terminal: each test, both outcomes, and the reason or the error."""
        lines = []
        for test in self.differences:
            before, after = self.direct.outcome(test), self.tidegate.outcome(test)
            lines.append(f"  {test}: {before} directly, {after} through Tidegate\n")
            known = self.reason(test)
            error = self._error(test)[-1500:].strip()
            lines.append(f"    {f'known: {known}' if known else error}\n")
        return "".join(lines)
