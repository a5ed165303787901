"""What reads are owed, by definition: read by read, with no regard to cost.

It knows the rules in another way than the audit: it looks at every record that ended before.
"""

from dataclasses import dataclass
from random import Random

from protocol.gtid import EMPTY, GtidSet

Place = tuple[str, str]
"""A kind of group, and which."""

Record = dict[str, object]

_ANSWERER = ("run", "server", "incarnation", "role")


@dataclass
class _Read:
    record: Record
    level: str
    places: list[Place]
    place: Place
    bound_us: int


class Owed:
    """What was told to anybody, and which reads relied on what is known."""

    def __init__(self) -> None:
        self._ended: list[tuple[Record, list[Place]]] = []
        self._probes: list[tuple[Record, GtidSet]] = []
        self._reads: dict[tuple[str, str], list[_Read]] = {}

    def ended(self, record: Record, places: list[Place]) -> None:
        """A statement ended."""
        self._ended.append((record, places))

    def probed(self, record: Record, executed: GtidSet) -> None:
        """The primary was asked."""
        self._probes.append((record, executed))

    def relies(
        self, record: Record, level: str, scope: str, places: list[Place], bound_us: int
    ) -> None:
        """A read relied on what was known of a replica."""
        place = next(place for place in places if place[0] == scope)
        read = _Read(record, level, places, place, bound_us)
        self._reads.setdefault((level, scope), []).append(read)

    def sample(
        self, promise: tuple[str, str], count: int, lost: GtidSet, random: Random
    ) -> list[tuple[Record, GtidSet]]:
        """Pick reads of a level and scope that were owed something, and say what."""
        reads = self._reads.get(promise, [])
        found: list[tuple[Record, GtidSet]] = []
        for read in random.sample(reads, len(reads)):
            if len(found) == count:
                break
            owed = self.owed(read) - lost
            if owed:
                found.append((read.record, owed))
        return found

    def owed(self, read: _Read) -> GtidSet:
        """What a read had to see, except for what only earlier proofs tell."""
        if read.level in ("STRONG", "BOUNDED_STALENESS"):
            return self._owed_by_all(int(str(read.record["arrived_us"])) - read.bound_us)
        own = seen = same = EMPTY
        for record, places in self._ended:
            if int(str(record["ended_us"])) > int(str(read.record["arrived_us"])):
                continue
            if read.place not in places:
                continue
            observed = GtidSet.parse(str(record["observed"]))
            own |= GtidSet.parse(str(record["own_gtids"]))
            if record["role"] == "primary" and record["may_write"]:
                own |= observed
            seen |= observed
            if all(record[name] == read.record[name] for name in _ANSWERER):
                # Later states of one server are no older.
                same |= observed | GtidSet.parse(str(record["proof_set"] or ""))
        return own if read.level == "READ_OWN_WRITES" else own | (seen - same)

    def _owed_by_all(self, before: int) -> GtidSet:
        owed = EMPTY
        for record, _ in self._ended:
            if int(str(record["ended_us"])) <= before:
                owed |= GtidSet.parse(str(record["own_gtids"]))
                if record["role"] == "primary":
                    owed |= GtidSet.parse(str(record["observed"]))
        for record, executed in self._probes:
            if int(str(record["ended_us"])) <= before:
                owed |= executed
        return owed
