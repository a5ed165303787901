"""Series whose labels have closed sets of values begin at 0, so that a first burst is seen."""

import re
from itertools import product
from pathlib import Path
from typing import get_args

import pytest
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.registry import CollectorRegistry

from proxy.observe import closed_labels, families, label_values
from proxy.observe.families import DEFINITIONS, Definition
from proxy.observe.metrics import MAX_FORMER_SERVERS, Metrics
from proxy.observe.metrics_server import WorkersCollector
from routing.consistency.decision import Level, Outcome, Proof, Reason, Role
from routing.sql.session_locks import PinReason

DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"

COUNTED = [
    definition
    for definition in DEFINITIONS
    if definition.kind != "gauge" and definition is not families.TRANSACTION_LAG
]
"""All but one whose label `source` the servers name."""

VALUES: dict[tuple[str, str], set[str]] = {
    (families.STATEMENTS.name, "reason"): set(Reason) - {Reason.PROBE},
    (families.STATEMENTS.name, "outcome"): set(Outcome),
    (families.STATEMENTS.name, "proof"): set(Proof) - {Proof.PROBED},
    (families.STATEMENTS.name, "role"): {"", *Role},
    (families.LATENCY.name, "role"): set(Role),
    (families.READS.name, "level"): set(Level),
    (families.READS.name, "proof"): set(Proof) - {Proof.PROBED},
    (families.WAITS.name, "result"): set(get_args(label_values.WaitResult)),
    (families.CROWDED.name, "result"): set(get_args(label_values.Crowded)),
    (families.CONFIRMATIONS.name, "result"): set(get_args(label_values.Confirmed)),
    (families.AUDITED.name, "result"): set(get_args(label_values.Audited)),
    (families.PINS.name, "reason"): set(PinReason),
    (families.CLIENTS_REFUSED.name, "cause"): set(get_args(label_values.RefusalCause)),
    (families.REQUIRED_UNKNOWN.name, "cause"): set(get_args(label_values.UnknownCause)),
    (families.CONNECT_FAILURES.name, "cause"): set(get_args(label_values.ConnectFailure)),
    (families.CONNECTION_WAITS.name, "result"): set(get_args(label_values.SlotWait)),
    (families.KEPT_DROPPED.name, "cause"): set(get_args(label_values.Dropped)),
    (families.BINLOG_STREAM_ENDS.name, "cause"): set(get_args(label_values.StreamEnd)),
    (families.TABLES_ENDS.name, "cause"): set(get_args(label_values.TablesEnd)),
    (families.LOG_UPKEEP_ERRORS.name, "task"): set(get_args(label_values.LogTask)),
    (families.ERRORS.name, "code"): {"other", *map(str, closed_labels.ERROR_CODES)},
}
"""What a label can be in a family, from where the code names it."""


def series_of(metrics: Metrics) -> dict[str, dict[tuple[str, ...], float]]:
    """What a scrape shows: for each family the number of its events by labels."""
    snapshot = metrics.snapshot()
    counted = {
        name: {tuple(labels): count for labels, count in series}
        for name, series in snapshot["values"].items()
    }
    for name, histograms in snapshot["histograms"].items():
        counted[name] = {tuple(labels): sum(counts) for labels, counts, _ in histograms}
    return counted


def known() -> Metrics:
    """Counts of a worker that knows a primary and a replica, and has not seen a client."""
    metrics = Metrics()
    metrics.server_known("db1:1", Role.PRIMARY)
    metrics.server_known("db2:1", Role.REPLICA)
    return metrics


@pytest.mark.parametrize("definition", COUNTED, ids=lambda definition: definition.name)
def test_every_value_of_a_label_is_there_before_any_client(definition: Definition) -> None:
    series = series_of(known())[definition.name]
    assert series
    if definition is not families.CPU:
        assert not any(series.values())
    for index, label in enumerate(definition.labels):
        found = {labels[index] for labels in series}
        if (definition.name, label) in VALUES:
            assert found == VALUES[definition.name, label]
        elif label == "server":
            assert found - {""} <= {"db1:1", "db2:1"}


def test_a_first_event_is_counted_in_a_series_that_is_there() -> None:
    metrics = known()
    before = series_of(metrics)
    metrics.client_refused("login")
    metrics.server_connect_failed("db2:1", "refused")
    metrics.required_unknown("lost")
    metrics.error("server", 1064)
    metrics.error("server", 60_000)
    metrics.wait("db2:1", "timeout", 5)
    metrics.fallback("db2:1", Reason.WAIT_TIMEOUT)
    for proof, outcome in product((Proof.NONE, Proof.KNOWN, Proof.WAITED), Outcome):
        metrics.course(Role.REPLICA, "db2:1", Reason.READ, proof, outcome, "STRONG").add(7)
    after = series_of(metrics)
    assert {name: set(series) for name, series in before.items()} == {
        name: set(series) for name, series in after.items()
    }


def test_a_replica_that_becomes_the_primary_has_the_series_of_both() -> None:
    metrics = known()
    before = series_of(metrics)
    metrics.server_known("db2:1", Role.PRIMARY)
    series = series_of(metrics)
    statements = series[families.STATEMENTS.name]
    assert set(before[families.STATEMENTS.name]) < set(statements)
    assert (Role.PRIMARY, "db2:1", Reason.WRITE, Proof.PRIMARY, Outcome.OK) in statements
    assert ("db2:1",) in series[families.GIVEN_BACK.name]


def test_servers_that_went_are_forgotten_and_begin_anew() -> None:
    metrics = known()
    names = [f"gone{number}:1" for number in range(MAX_FORMER_SERVERS + 1)]
    for name in names:
        metrics.server_known(name, Role.REPLICA)
        metrics.fallback(name, Reason.REPLICA_LOST)
        metrics.server_went(name)
    shown = {
        labels[definition.labels.index("server")]
        for definition in DEFINITIONS
        if "server" in definition.labels
        for labels in series_of(metrics)[definition.name]
    }
    assert shown - {""} == {"db1:1", "db2:1", *names[1:]}
    metrics.server_came(names[0])
    metrics.server_known(names[0], Role.REPLICA)
    assert series_of(metrics)[families.FALLBACKS.name][names[0], Reason.REPLICA_LOST] == 0


def test_the_number_of_series_is_the_documented_one() -> None:
    def lines(metrics: Metrics) -> int:
        collector = WorkersCollector(lambda: {0: metrics.snapshot()}, lambda: 0, ("1", "true", "3"))
        return sum(len(family.samples) for family in collector.collect())

    def added(role: Role) -> int:
        metrics = Metrics()
        before = lines(metrics)
        metrics.server_known("db1:1", role)
        return lines(metrics) - before

    bounds = re.search(
        r"at most (\d+) series, and for each\s+server (\d+) as the primary and (\d+) as a replica",
        DOCS.read_text(),
    )
    assert bounds is not None
    worker, primary, replica = map(int, bounds.groups())
    assert 0.8 * worker < lines(Metrics()) <= worker
    assert 0.8 * primary < added(Role.PRIMARY) <= primary
    assert 0.8 * replica < added(Role.REPLICA) <= replica


def test_openmetrics_takes_what_is_shown() -> None:
    registry = CollectorRegistry()
    metrics = known()
    registry.register(
        WorkersCollector(lambda: {0: metrics.snapshot()}, lambda: 0, ("1", "true", "3"))
    )
    text = generate_latest(registry).decode()
    assert len(list(text_string_to_metric_families(text))) > len(DEFINITIONS)


def test_the_causes_that_the_documentation_names_are_the_closed_ones() -> None:
    section = DOCS.read_text().split("| family | `cause` or `reason` |")[1].split("\n\n")[0]
    tables = {**closed_labels.PLAIN, **closed_labels.OF_SERVERS, **closed_labels.OF_REPLICAS}
    documented = {}
    for name, text in re.findall(r"^\| `(tidegate_\w+)` \| (.*) \|$", section, re.MULTILINE):
        without_remarks = re.sub(r"\([^()]*(\([^()]*\)[^()]*)*\)", "", text)
        documented[name] = set(re.findall(r"`(\w+)`", without_remarks))
    closed = {
        definition.name: {labels[-1] for labels in keys}
        for definition, keys in tables.items()
        if definition.name in documented
    }
    assert documented == closed
