"""What was wrong in a trial, told from what clients did and from the primary's binary log alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from routing.consistency.decision import Level, Scope
from tests.chaos.trial import NS, Operation, Trial
from tests.support.history import Read, Write
from tests.support.history_checker import check

BOUND_S = 30.0
"""An operation must end so soon after it began, or after the server that it needs is back."""
TIMEOUT, GONE = "3024", "1105"
_WITHOUT_PRIMARY = (
    *(Level.BEST_EFFORT, Level.READ_OWN_WRITES),
    *(Level.MONOTONIC_READS, Level.READ_ALL_WRITES),
)
"""Levels at which replicas can be read while there is no primary, for as long as that lasts."""
_TOLD = (Level.READ_OWN_WRITES, Level.MONOTONIC_READS, Level.READ_ALL_WRITES)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that must not have been.

    Attributes:
        kind: the broken promise, in a few words.
        text: a counter-example.
    """

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def judge(
    trial: Trial,
    places: Mapping[int, int],
    outages: Sequence[tuple[int, int]],
    *,
    harmless: bool = False,
) -> list[Finding]:
    """All that was wrong in a trial.

    Args:
        trial: one that is over.
        places: each committed value's place in the primary's binary log.
        outages: when the primary could not answer, each since and until when.
        harmless: clients should not have noticed but by waiting.
    """
    history = [_ordered(operation, places) for operation in trial.history]
    writes = [operation for operation in history if isinstance(operation, Write)]
    reads = [operation for operation in history if isinstance(operation, Read)]
    try:
        findings = _stale_reads(trial, history)
    except ValueError as error:
        findings = [Finding("commits in an impossible order", str(error))]
    findings += [
        Finding("an acknowledged write is gone", str(write))
        for write in writes
        if write.acknowledged is not None and write.order is None and not _may_be_lost(trial, write)
    ]
    findings += _phantoms(trial, reads, writes)
    findings += _hangs(trial, outages)
    findings += _reads_not_answered(trial)
    findings += _missing_trackers(trial, lost(trial, places))
    if harmless:
        findings += [
            Finding("an error that the fault does not explain", f"{failure.outcome}: {failure}")
            for failure in trial.failures
            if not _is_borne(failure)
        ]
    return findings


def lost(trial: Trial, places: Mapping[int, int]) -> list[Write]:
    """The acknowledged writes that the fault has lost, as it may."""
    return [
        write
        for write in trial.writes
        if write.acknowledged is not None
        and write.value not in places
        and _may_be_lost(trial, write)
    ]


def _ordered(operation: Write | Read, places: Mapping[int, int]) -> Write | Read:
    return (
        replace(operation, order=places.get(operation.value))
        if isinstance(operation, Write)
        else operation
    )


def _may_be_lost(trial: Trial, write: Write) -> bool:
    return trial.loss is not None and write.invoked < trial.loss.until


def _stale_reads(trial: Trial, history: list[Write | Read]) -> list[Finding]:
    """Before a loss everything must be seen, behind it what is left."""
    if trial.loss is None:
        violations = check(history)
    else:
        since = trial.loss.since
        before = [
            operation
            for operation in history
            if isinstance(operation, Write) or operation.returned < since
        ]
        left = [
            replace(operation, lost=True)
            if isinstance(operation, Write)
            and operation.order is None
            and _may_be_lost(trial, operation)
            else operation
            for operation in history
        ]
        behind = [violation for violation in check(left) if violation.read.returned >= since]
        violations = check(before) + behind
    return [
        Finding(f"a stale read at {violation.read.level}", _relative(str(violation), trial))
        for violation in violations
        if not _may_trust(trial, violation.read)
    ]


def _may_trust(trial: Trial, read: Read) -> bool:
    """Whether a read may rely on what its replica had proved, and has lost."""
    if trial.trusted is None:
        return False
    since, until = trial.trusted
    return read.returned >= since and read.invoked <= until


def _phantoms(trial: Trial, reads: list[Read], writes: list[Write]) -> list[Finding]:
    """Reads of what was never committed, or no more."""
    unknown = {
        (write.register, write.value)
        for write in writes
        if write.order is None and not _may_be_lost(trial, write)
    }
    return [
        Finding("a read of what was never committed", str(read))
        for read in reads
        if (read.register, read.value) in unknown
    ]


def _reads_not_answered(trial: Trial) -> list[Finding]:
    """Levels at which nobody could read while there was no primary."""
    if trial.absence is None:
        return []
    answered = trial.levels_without_primary
    return [
        Finding("no read without the primary", f"at {level}")
        for level in _WITHOUT_PRIMARY
        if not answered[level]
    ]


def _missing_trackers(trial: Trial, gone: list[Write]) -> list[Finding]:
    """Wide scopes that read on without an error although writes of theirs were lost."""
    concerned = {scope for write in gone for scope in write.scopes}
    told_scopes = {failure.scope for failure in trial.failures if failure.outcome == GONE}
    silent = {
        read.scope: read
        for read in trial.reads
        if read.scope in concerned - told_scopes
        and read.scope[0] is not Scope.CONNECTION
        and read.level in _TOLD
        and trial.loss is not None
        and read.invoked > trial.loss.until
    }
    return [Finding("a loss that was not told", str(read)) for read in silent.values()]


def _is_borne(failure: Operation) -> bool:
    """Whether an error may be where only replicas, or only times, are disturbed.

    Late replicas mean 3024, by policy. A replica that breaks takes with it the snapshot of a
    transaction that reads there. A login needs the primary to answer within connect-timeout.
    """
    return failure.outcome == TIMEOUT or failure.operation in ("login", "transaction")


def _hangs(trial: Trial, outages: Sequence[tuple[int, int]]) -> list[Finding]:
    """What took too long; while the primary cannot answer, time does not count."""
    findings = []
    for operation in trial.slow:
        lasted = operation.ended - operation.invoked
        for since, until in outages:
            lasted -= max(0, min(until, operation.ended) - max(since, operation.invoked))
        if lasted > BOUND_S * NS:
            findings.append(Finding("a hang", f"{operation}, {lasted / NS:.1f} s of it in vain"))
    return findings


def _relative(text: str, trial: Trial) -> str:
    """With a hint at where in the trial times are."""
    return f"{text} [fault in {trial.began}..{trial.healed}]"
