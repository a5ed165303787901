"""Says in the words of MySQL's manual what happened, how often, to whom, and what to do next."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from spark_jobs.findings.counter_example import counter_example, lost_writes, unproved_read
from spark_jobs.findings.findings import SHOWN, Findings
from spark_jobs.findings.incident import Failover, Incident, divide
from spark_jobs.gtid import parse
from spark_jobs.markdown import counted, moment, plain
from spark_jobs.report.coverage import meaning
from spark_jobs.verdict import Finding, Lapse

_NAMES: Final = 5
"""How many users, applications and servers are named."""

_INTERVALS: Final = 16
"""How many intervals of GTIDs a statement to copy holds: all that a read's `missing` holds."""

_REPORT: Final = "Keep the routing log, and report this as a defect of Tidegate."
_STALE: Final = (
    "Run SELECT GTID_SUBSET('{gtids}', @@GLOBAL.gtid_executed) on {culprit}. If this returns 0, "
    "the server still lacks transactions: stop sending reads to it, and repair or rebuild it. If "
    "it returns 1, the server has these by now: check in the same way what the other reads missed "
    "(table reads, column missing). Unless somebody rebuilt or rewound the server, Tidegate "
    f"should not have chosen it. {_REPORT}"
)
_UNPROVED: Final = f"These reads may have been right, but nothing proves it. {_REPORT}"


class _Words(NamedTuple):
    """What happened, and what to do; both with names in braces."""

    title: str
    next_step: str


_WORDS: Final[dict[str, _Words]] = {
    Failover.TWO_PRIMARIES: _Words(
        "{culprit} went on as primary after {successor} had taken over.",
        "Stop {culprit}, or set super_read_only = ON there, so that only {successor} takes "
        "writes. Before {culprit} is rebuilt, save its binary log: mysqlbinlog --include-gtids "
        "shows the transactions that {successor} lacks, and their owners decide what is applied "
        "again. Then find out why clients could still reach {culprit}.",
    ),
    Failover.LOST: _Words(
        "{successor} became the primary without transactions that {culprit} had acknowledged.",
        "Before {culprit} is rebuilt, save its binary log: mysqlbinlog --include-gtids='{gtids}' "
        "shows the transactions, and their owners decide what is applied again. Semisynchronous "
        "replication and sync_binlog = 1 prevent this.",
    ),
    Finding.KNOWN_TOO_SMALL: _Words(
        "{culprit} answered reads, and was not known to have the transactions that they had to "
        "see.",
        _STALE,
    ),
    Finding.WAITED_TOO_SMALL: _Words(
        "{culprit} answered reads after a WAIT for fewer transactions than they had to see.", _STALE
    ),
    Finding.NO_PROOF: _Words(
        "{culprit} answered reads, and nothing showed which transactions it had applied.", _STALE
    ),
    Finding.MALFORMED_PROOF: _Words(
        "{culprit} answered reads, and what it was taken to have is no GTID set.", _STALE
    ),
    Lapse.NOT_ASKED: _Words(
        "Proxy {culprit} sent reads to replicas, and had not asked the primary for its "
        "gtid_executed in time.",
        _UNPROVED,
    ),
    Lapse.LEFT: _Words(
        "Proxy {culprit} sent reads to another server than before, and had not asked the primary "
        "for its gtid_executed in between.",
        _UNPROVED,
    ),
    Lapse.CONTRADICTED: _Words(
        "{culprit} lacked transactions that it had claimed to have.",
        "These reads were stale, or {culprit} lost transactions after them. See in its error log "
        "whether it was rebuilt, restored, or crashed without sync_binlog = 1 and "
        f"innodb_flush_log_at_trx_commit = 1. If nothing of this happened: {_REPORT}",
    ),
    Lapse.HOLES: _Words(
        "{culprit} showed newer transactions without older ones of the same source.",
        "Set replica_preserve_commit_order = ON and binlog_order_commits = ON on {culprit}, and "
        "see whether it skips transactions (replication filters, replica_skip_errors).",
    ),
}


@dataclass(frozen=True, slots=True)
class Description:
    """An incident in words.

    Attributes:
        title: what happened.
        facts: how often, since when, and whom it concerned.
        next_step: what to do.
        source: which tables hold all of its rows, and what their findings mean.
        examples: one case of each consequence, in full.
    """

    title: str
    facts: Sequence[str]
    next_step: str
    source: str
    examples: Sequence[str]


def shown(findings: Findings) -> list[tuple[Incident, Description]]:
    """The first SHOWN incidents, and at least the first of each kind, each with its words."""
    return [(incident, describe(incident)) for incident in divide(findings.incidents, SHOWN)[0]]


def beyond(findings: Findings) -> str:
    """A sentence on the incidents that are not shown; "" if all are."""
    _, others = divide(findings.incidents, SHOWN)
    if not others:
        return ""
    tables = {
        "lost": any(incident.loss is not None for incident in others),
        "reads": any(incident.read is not None for incident in others),
        "procedure": any(incident.lapse is not None for incident in others),
    }
    names = ", ".join(f"table `{name}`" for name, is_there in tables.items() if is_there)
    return f"Not shown: {counted(len(others), 'more incident')}; see {names}."


def describe(incident: Incident) -> Description:
    """Put an incident into words; names from the log stay on their line."""
    gtids = incident.lost
    if incident.read is not None and incident.read.has("missing"):
        gtids = parse(incident.read.text("missing").removesuffix(",…"))
    names = {
        "culprit": plain(incident.culprit) or "an earlier primary",
        "successor": plain(incident.successor),
        "gtids": gtids.shortened(_INTERVALS).removesuffix(",…"),
    }
    words = _WORDS.get(incident.cause, _Words(f"{{culprit}}: {incident.cause}.", _REPORT))
    return Description(
        words.title.format_map(names),
        list(_facts(incident)),
        words.next_step.format_map(names),
        _source(incident),
        list(_examples(incident)),
    )


def _facts(incident: Incident) -> Iterable[str]:
    counts = []
    if incident.read is not None:
        counts.append(f"{counted(incident.reads, 'read')} may have been stale")
    if incident.lapse is not None:
        counts.append(f"{counted(incident.reads, 'read')} had no valid proof")
    if incident.lost:
        lost = counted(incident.lost.count(), "acknowledged transaction")
        counts.append(f"{lost} {'is' if incident.lost.count() == 1 else 'are'} lost")
    yield f"{' and '.join(counts)}, {_times(incident)}."
    # Of lost transactions, only the first few records are known.
    least = ", at least" if incident.lost else ""
    for noun, names in (
        (f"Users{least}", incident.users),
        (f"Applications{least}", incident.applications),
        ("Answered by", incident.servers),
    ):
        if names and list(names) != [incident.culprit]:
            yield f"{noun}: {_named(names)}."


def _times(incident: Incident) -> str:
    since, until = (moment(us)[:19] for us in (incident.since_us, incident.until_us))
    if since == until:
        return f"at {since} UTC"
    if since[:10] == until[:10]:
        until = until[11:]
    return f"from {since} to {until} UTC"


def _named(names: Counter[str]) -> str:
    counts = [f"{plain(name)} ({number:,})" for name, number in names.most_common(_NAMES)]
    if len(names) > _NAMES:
        counts.append(f"{len(names) - _NAMES:,} more")
    return ", ".join(counts)


def _source(incident: Incident) -> str:
    if incident.lapse is not None:
        return f"table `procedure`, finding `{incident.cause}`. {meaning(incident.cause)}"
    tables = []
    if incident.read is not None:
        finding = incident.read.text("finding")
        tables.append(
            f"table `reads`, verdict `violation`, finding `{finding}`. {meaning(finding)}"
        )
    if incident.loss is not None:
        tables.append("table `lost`.")
    return " Also ".join(tables)


def _examples(incident: Incident) -> Iterable[str]:
    if incident.read is not None:
        yield counter_example(incident.read)
    if incident.lapse is not None:
        yield unproved_read(incident.lapse)
    if incident.loss is not None:
        yield lost_writes(incident.loss)
