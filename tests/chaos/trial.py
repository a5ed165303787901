"""What clients did while one fault was upon the cluster."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from routing.consistency.decision import Level
from tests.support.history import Read, ScopeKey, Stamps, Write

NS = 1_000_000_000
SLOW_S = 20.0
"""Operations that lasted longer are kept, to be judged."""
REGISTERS_PER_TRIAL = 1000
PROOF_MAX_AGE_S = 1.0
"""The proxy's `proof-max-age`: so long reads rely on a proof without a question."""


@dataclass(frozen=True, slots=True)
class Operation:
    """Something that a client did and waited for.

    Attributes:
        client: who waited.
        operation: ``login``, ``write``, ``read``, or ``transaction``: a whole one that reads.
        invoked: when it was sent, ns.
        ended: when its answer or error was there.
        outcome: the error's code; ``ok`` if there was none.
        scope: whose promise it was; None for what is no client's of the proxy.
        message: the error's text; empty if there was none.
    """

    client: str
    operation: str
    invoked: int
    ended: int
    outcome: str
    scope: ScopeKey | None = None
    message: str = ""

    def __str__(self) -> str:
        seconds = (self.ended - self.invoked) / NS
        detail = f" ({self.message})" if self.message else ""
        return (
            f"{self.client}: a {self.operation} lasted {seconds:.1f} s"
            f" and ended in {self.outcome}{detail}"
        )


@dataclass(frozen=True, slots=True)
class Loss:
    """When acknowledged writes may have been lost.

    Attributes:
        since: nothing was lost before.
        until: what was invoked from here on is not lost.
    """

    since: int
    until: int


@dataclass
class Trial:
    """One fault, from before it begins until the cluster is healthy again.

    Times are nanoseconds of one clock; each trial has registers of its own.

    Attributes:
        number: counts trials; says which registers are this one's.
        fault: the fault's name.
        stamps: the clock.
        history: what clients wrote and read, without the order of commits.
        failures: what ended in an error.
        slow: what took longer than SLOW_S.
        began: when the fault began; None before.
        healed: when the cluster was healthy again.
        loss: when writes were lost; None if the fault loses none.
        trusted: from when until when reads may have relied on what a replica had proved and then
            lost without a sign; None if none lost any.
        absence: from when until when there was no primary, and replicas were to be read all the
            same; None if there always was one.
        quiet: clients shall only read; direct writers go on.
        slowest: the read that took longest, seconds.
        writing: how many clients write at the moment.
    """

    number: int
    fault: str
    stamps: Stamps = field(default_factory=Stamps)
    history: list[Write | Read] = field(default_factory=list)
    failures: list[Operation] = field(default_factory=list)
    slow: list[Operation] = field(default_factory=list)
    began: int | None = None
    healed: int | None = None
    loss: Loss | None = None
    trusted: tuple[int, int] | None = None
    absence: tuple[int, int] | None = None
    quiet: bool = False
    slowest: float = 0.0
    writing: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def register(self, client: int) -> int:
        """The one that a client writes in this trial."""
        return self.number * REGISTERS_PER_TRIAL + client

    @property
    def reads(self) -> list[Read]:
        """The reads that were answered."""
        return [operation for operation in self.history if isinstance(operation, Read)]

    @property
    def writes(self) -> list[Write]:
        """The writes, acknowledged or not."""
        return [operation for operation in self.history if isinstance(operation, Write)]

    @property
    def levels(self) -> Counter[Level]:
        """How many reads were answered at each level."""
        return Counter(read.level for read in self.reads)

    @property
    def levels_without_primary(self) -> Counter[Level]:
        """The same of the reads that began and ended while there was no primary."""
        if self.absence is None:
            return Counter()
        since, until = self.absence
        return Counter(
            read.level for read in self.reads if read.invoked >= since and read.returned <= until
        )

    @property
    def errors(self) -> Counter[str]:
        """How often clients saw which code."""
        return Counter(operation.outcome for operation in self.failures)

    def begin_write(self) -> bool:
        """Whether a client may write now; if so, it says when that is over (`end_write`)."""
        with self._lock:
            self.writing += not self.quiet
            return not self.quiet

    def stop_writing(self) -> None:
        """No client begins another write; those under way go on."""
        with self._lock:
            self.quiet = True

    def end_write(self) -> None:
        """A client's write is over, well or not."""
        with self._lock:
            self.writing -= 1

    def did(self, operation: Write | Read) -> None:
        """Enter what a client did."""
        self.history.append(operation)  # one call: threads may share it

    def lasted(self, operation: Operation) -> None:
        """Enter how long something took, and what error it ended in."""
        seconds = (operation.ended - operation.invoked) / NS
        with self._lock:
            if operation.operation in ("read", "transaction") and operation.outcome == "ok":
                self.slowest = max(self.slowest, seconds)
            if operation.outcome != "ok":
                self.failures.append(operation)
            if seconds > SLOW_S:
                self.slow.append(operation)

    @contextmanager
    def bereaving(self) -> Iterator[None]:
        """In a `with` block a replica loses what it had proved; reads rely on that for a while."""
        since = self.stamps()
        yield
        self.trusted = since, self.stamps() + int(PROOF_MAX_AGE_S * NS)

    @contextmanager
    def without_primary(self) -> Iterator[None]:
        """In a `with` block there is no primary; replicas have all that was acknowledged."""
        since = self.stamps()
        yield
        self.absence = since, self.stamps()

    @contextmanager
    def losing(self) -> Iterator[None]:
        """Writes that are on their way in a `with` block, or were before, may be lost."""
        since = self.stamps()
        try:
            yield
        finally:
            self.loss = Loss(since, self.stamps())
