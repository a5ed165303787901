"""What is missing or differs, judged by what the servers said. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from proxy.check.server_facts import Channel, ServerFacts
from proxy.config import Config
from proxy.monitor.lag import FURTHER_TABLES, TABLES
from routing.servers.logged_changes import why_not_logged
from routing.servers.topology import Role
from routing.session.defaults import differences
from routing.session.global_variables import not_carried
from routing.stable_enum import StableStrEnum

_NUMBERS: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})*")
OLDEST: Final = (8, 0, 26)
"""The oldest version that Tidegate knows (docs/compatibility.md)."""
_CLOCKS_US: Final = 1_000_000
"""Servers' clocks that differ by more are reported, µs."""


class Severity(StableStrEnum):
    """How bad a finding is."""

    ERROR = "error"
    """A guarantee, or all service, depends on it."""
    WARNING = "warning"
    """Something does less than it could, or reads differ."""
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found.

    Attributes:
        server: ``host:port``; of a difference, the server that differs from the primary.
        severity: how bad it is.
        text: what is so, and what to do.
    """

    server: str
    severity: Severity
    text: str


_Judged = Iterator[tuple[Severity, str]]


def judge(config: Config, servers: Sequence[ServerFacts]) -> list[Finding]:
    """Judge what servers said, the primary's first."""
    found = [
        Finding(facts.name, severity, text)
        for facts in servers
        for severity, text in _of_server(config, facts, servers)
    ]
    return found + list(_of_names(servers))


def _of_server(config: Config, facts: ServerFacts, servers: Sequence[ServerFacts]) -> _Judged:
    primary = servers[0]
    if facts.failure:
        yield Severity.ERROR, facts.failure
        return
    yield from _of_any(facts)
    yield from _of_rights(config, facts)
    if facts is primary:
        yield from _of_primary(config, facts)
        return
    known = {other.variables.get("server_uuid", "") for other in servers}
    yield from _of_replica(config, facts)
    for channel in facts.channels or ():
        yield from _of_channel(config, channel, known)
    if not primary.failure:
        yield from _of_pair(primary, facts)


def _of_any(facts: ServerFacts) -> _Judged:
    if _version(facts.version) < OLDEST:
        yield (
            Severity.ERROR,
            f"it is MySQL {facts.version}; Tidegate needs {'.'.join(map(str, OLDEST))} or later",
        )
    mode = facts.variables.get("gtid_mode", "OFF")
    if mode != "ON":
        yield (
            Severity.ERROR,
            f"gtid_mode is {mode}: only transactions with GTIDs can be waited for, so all reads"
            " that must see something run on the primary; set gtid_mode and"
            " enforce_gtid_consistency to ON",
        )
    if not facts.is_on("log_bin") and facts.role is Role.PRIMARY:
        yield Severity.ERROR, "log_bin is OFF: it gives its transactions no GTIDs"
    init_connect = facts.variables.get("init_connect", "")
    if init_connect:
        yield (
            Severity.WARNING,
            "init_connect is set: its connections are not kept for later logins, and what it does"
            " on a replica is undone",
        )


def _of_rights(config: Config, facts: ServerFacts) -> _Judged:
    user = config.monitor_user
    for subject, refusal in facts.refusals.items():
        if subject == "replication" and config.failover != "off":
            yield (
                Severity.ERROR,
                f"failover cannot see whether it replicates ({refusal}); GRANT REPLICATION CLIENT"
                f" ON *.* TO {user}",
            )
        elif subject == "replication" and facts.role is Role.REPLICA:
            yield (
                Severity.NOTE,
                f"whether it replicates is not known ({refusal}); GRANT REPLICATION CLIENT ON *.*"
                f" TO {user}",
            )
        elif subject == "replicas" and config.topology == "auto":
            yield (
                Severity.ERROR,
                f"its replicas cannot be found (topology = auto): {refusal}; GRANT REPLICATION"
                f" SLAVE ON *.* TO {user}",
            )
        elif subject == "filters":
            yield (
                Severity.WARNING,
                f"what replication leaves out cannot be seen ({refusal}); GRANT SELECT ON"
                f" performance_schema.replication_applier_filters TO {user}",
            )
        elif subject == "binary log" and facts.role is Role.PRIMARY:
            yield (
                Severity.WARNING,
                f"what the binary log leaves out cannot be seen ({refusal}); GRANT REPLICATION"
                f" CLIENT ON *.* TO {user}",
            )
        elif subject in TABLES and facts.role is Role.REPLICA:
            yield (
                Severity.NOTE,
                "lag is not measured by commit timestamps, and whether it replicates is not seen"
                f" while Tidegate runs ({refusal}); GRANT SELECT ON {subject} TO {user}",
            )
        elif subject in FURTHER_TABLES and facts.role is Role.REPLICA:
            yield (
                Severity.NOTE,
                f"why it does not replicate, or is late, may not be seen ({refusal}); GRANT SELECT"
                f" ON {subject} TO {user}",
            )


def _of_primary(config: Config, facts: ServerFacts) -> _Judged:
    if config.table_dependencies != "off" and config.topology != "group":
        yield from _of_tables(config, facts)
    if facts.is_on("read_only"):
        follows = config.failover != "off"
        yield (
            Severity.WARNING if follows else Severity.ERROR,
            "it is configured as the primary and read only, so it takes no writes"
            + ("" if follows else "; name another primary, or let it be followed (failover)"),
        )
    if facts.log_filters:
        yield (
            Severity.ERROR,
            f"its binary log leaves out writes ({facts.log_filters}), which no replica ever has",
        )


def _of_tables(config: Config, facts: ServerFacts) -> _Judged:
    """Why the primary's log is not read for table-dependencies."""
    cause = why_not_logged(facts.variables, facts.log_filters)
    if not cause and "replicas" in facts.refusals:
        cause = (
            f"{facts.refusals['replicas']}; GRANT REPLICATION SLAVE ON *.* TO {config.monitor_user}"
        )
    if cause:
        yield Severity.NOTE, f"table-dependencies has no effect: {cause}"


def _of_replica(config: Config, facts: ServerFacts) -> _Judged:
    if not facts.is_on("read_only"):
        yield (
            Severity.WARNING,
            "it takes writes: one that anybody makes here is on no other server; SET PERSIST"
            " super_read_only = ON",
        )
    if facts.applier_filters:
        allowed = config.filtered_replicas == "allow"
        yield (
            Severity.WARNING if allowed else Severity.ERROR,
            f"replication leaves out writes ({facts.applier_filters}), whose GTIDs it has"
            + ("" if allowed else ": guarded reads do not go there (filtered-replicas)"),
        )
    workers = int(facts.variables.get("replica_parallel_workers", "0") or 0)
    if workers > 1 and not facts.is_on("replica_preserve_commit_order"):
        yield (
            Severity.WARNING,
            "it commits in another order than its source, so READ_ALL_WRITES and reads that have"
            " to go on from others cannot use it; SET PERSIST replica_preserve_commit_order = ON",
        )
    if config.topology == "auto" and not facts.variables.get("report_host"):
        yield (
            Severity.NOTE,
            "report_host is empty: if it were not named, it could not be found (topology = auto)",
        )
    if facts.channels is not None and not facts.channels:
        yield Severity.ERROR, "it replicates from nobody (no CHANGE REPLICATION SOURCE TO)"


def _of_channel(config: Config, channel: Channel, known: set[str]) -> _Judged:
    name = f"channel '{channel.get('Channel_Name', '')}'"
    for part, thread in (("IO", "receives"), ("SQL", "applies")):
        state = channel.get(f"Replica_{part}_Running", "")
        if state != "Yes":
            cause = channel.get(f"Last_{part}_Error", "")
            yield (
                Severity.ERROR,
                f"{name} {thread} nothing (Replica_{part}_Running: {state})"
                + (f": {cause}" if cause else "; START REPLICA"),
            )
    source = channel.get("Source_UUID", "")
    if source and source not in known:
        yield (
            Severity.NOTE,
            f"{name} replicates from {channel.get('Source_Host', '')}:"
            f"{channel.get('Source_Port', '')} ({source}), which is none of the servers here: a"
            " chain, or another cluster",
        )
    delay = int(channel.get("SQL_Delay", "0"))
    if delay:
        limit = config.lag_limit
        left_out = limit is not None and delay > limit
        yield (
            Severity.WARNING,
            f"{name} is delayed by {delay} s (SOURCE_DELAY)"
            + (
                f", which is more than max-lag ({limit:g}s): few reads go there" if left_out else ""
            ),
        )


def _of_pair(primary: ServerFacts, replica: ServerFacts) -> _Judged:
    """What differs between a replica and its primary."""
    different = differences(primary.defaults, replica.defaults)
    if different:
        yield (
            Severity.NOTE,
            "its sessions begin with other values than the primary's, so each is told the"
            f" primary's: {', '.join(sorted(different))}",
        )
    for text in not_carried(primary.variables, replica.variables).values():
        yield Severity.WARNING, text
    if replica.version != primary.version:
        yield Severity.NOTE, f"it is MySQL {replica.version}, the primary {primary.version}"
    if primary.clock is not None and replica.clock is not None:
        ahead = replica.clock.ahead_of(primary.clock).least
        if abs(ahead) > _CLOCKS_US:
            yield (
                Severity.WARNING,
                f"its clock is {abs(ahead) / 1e6:.1f} s {'ahead of' if ahead > 0 else 'behind'} the"
                " primary's: NOW() differs, and lag by timestamps is wrong",
            )


def _of_names(servers: Sequence[ServerFacts]) -> Iterator[Finding]:
    """Servers that are the same one, or that others take for the same."""
    for variable in ("server_uuid", "server_id"):
        first: dict[str, str] = {}
        for facts in servers:
            value = facts.variables.get(variable, "")
            if not value:
                continue
            if value in first:
                yield Finding(
                    facts.name,
                    Severity.ERROR,
                    f"its {variable} {value} is that of {first[value]}, too: one server under two"
                    " names, or a copied data directory",
                )
            first.setdefault(value, facts.name)


def _version(text: str) -> tuple[int, ...]:
    """The numbers of a version such as "8.0.26", "26.7.0" or "8.0.35-0ubuntu0.22.04.1"."""
    match = _NUMBERS.match(text)
    return () if match is None else tuple(map(int, match[0].split(".")))
