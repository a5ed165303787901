"""One act and all its consequences, as a person on call is told of it."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from spark_jobs.gtid import GtidSet
from spark_jobs.tables.row import Row


class Failover(StrEnum):
    """Causes that are no single read's finding: a change of the primary went wrong."""

    TWO_PRIMARIES = "two primaries"
    """A server went on acknowledging transactions as primary after another had taken over."""
    LOST = "lost in a failover"
    """A new primary lacks what an earlier one had acknowledged in its own time."""


@dataclass(frozen=True, slots=True)
class Incident:
    """One act and its consequences.

    Attributes:
        cause: a `Failover`, `verdict.Finding` or `verdict.Lapse`.
        culprit: whose act it was: a server, or a proxy where the proxy left a question out; in a
            failover the earlier primary, "" if the log does not name it.
        successor: in a failover the new primary, else "".
        since_us: when the first consequence came, UTC µs.
        until_us: when the last one came, UTC µs.
        reads: how many reads it concerned.
        lost: transactions that it lost.
        users: reads or lost transactions by user; of lost ones only the first few are known.
        applications: the same by application; statements that name none are not in it.
        servers: reads by the server that answered.
        read: JUDGED of the first read that is a violation; None if there is none.
        lapse: PROCEDURE of the first read without a valid proof; None if there is none.
        loss: LOST of the first primary that lacked something; None if there is none.
    """

    cause: str
    culprit: str
    successor: str
    since_us: int
    until_us: int
    reads: int = 0
    lost: GtidSet = field(default_factory=GtidSet)
    users: Counter[str] = field(default_factory=Counter)
    applications: Counter[str] = field(default_factory=Counter)
    servers: Counter[str] = field(default_factory=Counter)
    read: Row | None = None
    lapse: Row | None = None
    loss: Row | None = None

    def joined(self, later: "Incident") -> "Incident":
        """Both as one: they have the same cause, and this one began first."""
        return replace(
            self,
            until_us=max(self.until_us, later.until_us),
            reads=self.reads + later.reads,
            lost=self._lost_with(later),
            users=self.users + later.users,
            applications=self.applications + later.applications,
            servers=self.servers + later.servers,
            read=self.read or later.read,
            lapse=self.lapse or later.lapse,
            loss=self.loss or later.loss,
        )

    def _lost_with(self, later: "Incident") -> GtidSet:
        """What both lost; several proxies may have noticed the same."""
        lost = self.lost.copy()
        lost.update(later.lost)
        return lost


def group(parts: Iterable[Incident]) -> list[Incident]:
    """Join what has the same cause: losses, then stale reads, then the rest, each by its reads."""
    found: dict[tuple[str, str, str], Incident] = {}
    for part in sorted(parts, key=lambda part: part.since_us):
        key = (part.cause, part.culprit, part.successor)
        found[key] = found[key].joined(part) if key in found else part
    return sorted(found.values(), key=_gravity)


def divide(incidents: Sequence[Incident], most: int) -> tuple[list[Incident], list[Incident]]:
    """Divide what `group` returns into what is shown and the rest.

    Args:
        incidents: the incidents.
        most: how many are shown: the first ones, but at least the first of each kind.
    """
    heads: dict[tuple[bool, bool], int] = {}
    for number, incident in enumerate(incidents):
        heads.setdefault(_kind(incident), number)
    numbers = sorted(range(len(incidents)), key=lambda number: number not in heads.values())
    shown, rest = sorted(numbers[:most]), sorted(numbers[most:])
    return [incidents[number] for number in shown], [incidents[number] for number in rest]


def _kind(incident: Incident) -> tuple[bool, bool]:
    """Kinds in their order: transactions were lost, reads were stale, reads had no valid proof."""
    return incident.loss is None, incident.lapse is not None


def _gravity(incident: Incident) -> tuple[tuple[bool, bool], int]:
    return _kind(incident), -incident.reads
