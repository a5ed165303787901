"""One record in one group of statements: a row of what `groups` makes."""

from typing import Final, NamedTuple

from spark_jobs.gtid import GtidSet, MalformedGtidSetError, parse
from spark_jobs.tables.schema import READ
from spark_jobs.verdict import Finding


class Event(NamedTuple):
    """A row of `groups.COLUMNS`."""

    kind: str
    key: str
    at: int
    turn: int
    judges: bool
    learns: bool
    maybe: bool
    cluster: str
    proxy: str
    worker: int
    run: str
    session: int
    seq: int
    ordinal: int
    arrived_us: int
    dispatched_us: int
    ended_us: int
    user: str
    schema: str | None
    digest: str | None
    application: str | None
    scope: str
    level: str
    bound_us: int | None
    server: str | None
    server_uuid: str | None
    role: str | None
    reason: str
    proof: str
    wait_us: int
    outcome: str
    required: str | None
    proof_set: str | None
    own_gtids: str
    named: str
    observed: str
    incarnation: int | None
    hole: bool
    unbacked: str | None
    reached: int | None
    mark: int | None
    is_read: bool
    is_unnamed: bool
    moment_us: int

    @property
    def answerer(self) -> tuple[object, ...] | None:
        """The incarnation of a replica that answered, as its run counts them."""
        if self.role != "replica" or self.server_uuid is None:
            return None
        return self.proxy, self.worker, self.run, self.server_uuid, self.incarnation

    @property
    def read(self) -> tuple[object, ...]:
        """The columns READ of the record."""
        return self[_READ_FROM : _READ_FROM + len(READ)]


_READ_FROM: Final = Event._fields.index(READ[0])


def claim_of(event: Event) -> tuple[GtidSet, Finding]:
    """The set that the proof claims the server to have, and the finding if that is too small."""
    if event.proof not in ("known", "waited", "independent") or event.proof_set is None:
        return GtidSet(), Finding.NO_PROOF
    try:
        claim = parse(event.proof_set)
    except MalformedGtidSetError:
        return GtidSet(), Finding.MALFORMED_PROOF
    if event.proof == "waited":
        return claim, Finding.WAITED_TOO_SMALL
    return claim, Finding.KNOWN_TOO_SMALL


def shown_by(event: Event) -> str:
    """What a read's answer certainly showed: its proof's set, as far as evidence backs it."""
    if (
        not event.is_read
        or event.outcome != "ok"
        or event.role != "replica"
        or event.proof_set is None
    ):
        return ""
    if event.proof == "waited" or (event.proof == "known" and event.unbacked == ""):
        return event.proof_set
    if event.proof == "known" and event.unbacked:
        return parse(event.proof_set).minus(parse(event.unbacked)).text()
    return ""
