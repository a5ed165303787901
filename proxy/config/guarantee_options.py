"""Options of what a read must see, and what happens if it cannot."""

from typing import Final

from proxy.config import values
from proxy.config.option import Option
from proxy.config.words import (
    Explain,
    Failover,
    FilteredReplicas,
    OnMaxLag,
    Place,
    WithoutPrimary,
)
from routing.consistency.decision import (
    ConflictPolicy,
    Level,
    LostPolicy,
    Scope,
    TimeoutPolicy,
    TransactionReads,
)

_GROUP: Final = "the guarantee"
_DAY: Final = 86_400.0
_WEEK: Final = 7 * _DAY

OPTIONS: Final = (
    Option(
        "consistency",
        values.consistency,
        "LEVEL",
        "what a read must see (default READ_OWN_WRITES)",
        _GROUP,
        choices=tuple(
            f"{level}(TIME)" if level is Level.BOUNDED_STALENESS else level for level in Level
        ),
    ),
    Option(
        "scope",
        values.scope,
        "SCOPE",
        "whose writes count as a session's own (default user)",
        _GROUP,
        choices=tuple(Scope),
    ),
    Option(
        "wait-budget",
        values.wait_budget,
        "TIME",
        "how long a read may wait for a replica, such as 250ms or 1s, or auto: as long as that is"
        " worth (default 250ms)",
        _GROUP,
    ),
    Option(
        "on-timeout",
        values.timeout_policy,
        "POLICY",
        "what a read gets when its wait budget has run out (default primary)",
        _GROUP,
        choices=tuple(TimeoutPolicy),
    ),
    Option(
        "transaction-reads",
        values.transaction_reads,
        "WHERE",
        "which transactions read from replicas until they write: none, those at READ COMMITTED, or"
        " also those at REPEATABLE READ (default split)",
        _GROUP,
        choices=tuple(TransactionReads),
    ),
    Option(
        "on-split-conflict",
        values.conflict_policy,
        "POLICY",
        "what a read gets if the primary would answer it from another snapshot than earlier reads"
        " (default error)",
        _GROUP,
        choices=tuple(ConflictPolicy),
    ),
    Option(
        "scope-limit",
        values.integer(1, 10_000_000),
        "N",
        "how many scopes wider than a connection each worker keeps (default 10000)",
        _GROUP,
        at_start=True,
    ),
    Option(
        "scope-age",
        values.duration(_WEEK),
        "TIME",
        "time after which such a scope is dropped if it is not used (default 1h)",
        _GROUP,
    ),
    Option(
        "view-age",
        values.duration_or_0(_WEEK),
        "TIME",
        "how long the list of plain views is relied on; 0 takes all views for plain (default 60s)",
        _GROUP,
    ),
    Option(
        "token-key-file",
        values.path,
        "FILE",
        "file of the keys that sign tokens, one per line; the first signs, all verify",
        _GROUP,
    ),
    Option(
        "token-lifetime",
        values.duration(_WEEK),
        "TIME",
        "how long a token is accepted (default 1h)",
        _GROUP,
    ),
    Option(
        "primary-fallback-rate",
        values.number(0.001, 1_000_000),
        "RATE",
        "reads per second and worker that may go to the primary because replicas lag"
        " (default 2000)",
        _GROUP,
    ),
    Option(
        "on-lost-writes",
        values.lost_policy,
        "POLICY",
        "what a read gets after acknowledged writes were lost in a failover (default error)",
        _GROUP,
        choices=tuple(LostPolicy),
    ),
    Option(
        "failover",
        values.choice(values.words(Failover)),
        "MODE",
        "how another server is recognised as the primary after a failover (default off)",
        _GROUP,
        choices=values.words(Failover),
        at_start=True,
    ),
    Option(
        "without-primary",
        values.choice(values.words(WithoutPrimary)),
        "POLICY",
        "what sessions do while there is no primary: read on from replicas, or end (default read)",
        _GROUP,
        choices=values.words(WithoutPrimary),
    ),
    Option(
        "proof-max-age",
        values.duration(_WEEK, zero=True),
        "TIME",
        "how long a replica's proof is relied on before the replica is asked again; 0 always asks"
        " (default 1s)",
        _GROUP,
    ),
    Option(
        "filtered-replicas",
        values.choice(values.words(FilteredReplicas)),
        "MODE",
        "whether replicas with replication filters may serve guarded reads (default refuse)",
        _GROUP,
        choices=values.words(FilteredReplicas),
    ),
    Option(
        "max-lag",
        values.duration_or_off(_DAY),
        "TIME",
        "how far a replica may be behind the primary to be read, or off (default 30s)",
        _GROUP,
    ),
    Option(
        "on-max-lag",
        values.choice(values.words(OnMaxLag)),
        "POLICY",
        "what answers reads when all replicas are further behind (default primary)",
        _GROUP,
        choices=values.words(OnMaxLag),
    ),
    Option(
        "metadata-reads",
        values.choice(values.words(Place)),
        "PLACE",
        "which server answers SHOW and reads of information_schema (default primary)",
        _GROUP,
        choices=values.words(Place),
    ),
    Option(
        "explain",
        values.choice(values.words(Explain)),
        "PLACE",
        "where EXPLAIN runs: where the statement would, or on the primary (default statement)",
        _GROUP,
        choices=values.words(Explain),
    ),
    Option(
        "self-audit",
        values.number(0, 1),
        "SHARE",
        "share of replica reads before which the replica is asked if it has what they must see"
        " (default 0.001)",
        _GROUP,
    ),
)
