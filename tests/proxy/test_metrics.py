import gc
import http.client
import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from proxy.address import Address
from proxy.observe import families
from proxy.observe.families import (
    BUILD,
    DEFINITIONS,
    LAG_BUCKETS_US,
    LATENCY_BUCKETS_US,
    RELOAD_SUCCEEDED_AT,
    RELOAD_SUCCESSFUL,
    WAIT_BUCKETS_US,
    WORKER_RESTARTS,
    WORKER_UP,
)
from proxy.observe.metrics import MAX_LAG_SERIES, Metrics
from proxy.observe.metrics_server import Health, MetricsServer, WorkersCollector
from proxy.observe.snapshot import Snapshot
from proxy.reload.last_reload import LastReload
from routing.consistency.decision import Outcome, Proof, Reason, Role
from routing.sql.session_locks import PinReason

ROOT = Path(__file__).parents[2]
ALL = (
    *DEFINITIONS,
    BUILD,
    WORKER_UP,
    WORKER_RESTARTS,
    RELOAD_SUCCESSFUL,
    RELOAD_SUCCEEDED_AT,
)
"""The last ones are of the proxy as a whole: they have no label `worker`."""
DOCS = ROOT / "docs" / "metrics.md"
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Scraped:
    """A metrics server whose workers' snapshots the test sets."""

    def __init__(self) -> None:
        self.snapshots: dict[int, Snapshot | None] = {}
        self.trouble = ""
        self.now = 1000.5
        self.last_reload = LastReload(lambda: self.now)
        collector = WorkersCollector(
            lambda: self.snapshots, lambda: 3, ("1.2", "true", "3.11"), self.last_reload
        )
        self.server = MetricsServer(
            Address("127.0.0.1", 0), collector, Health(lambda: self.trouble)
        )
        self.server.start()

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://{self.server.address}{path}", timeout=10) as response:
            body: bytes = response.read()
        return body.decode()

    def status(self, method: str, path: str, accept: str = "*/*") -> int:
        address = self.server.address
        connection = http.client.HTTPConnection(address.host, address.port, timeout=10)
        try:
            connection.request(method, path, headers={"Accept": accept})
            return connection.getresponse().status
        finally:
            connection.close()

    def samples(self) -> Samples:
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(self.get("/metrics"))
            for sample in family.samples
        }


@pytest.fixture
def scraped() -> Iterator[Scraped]:
    scraped = Scraped()
    yield scraped
    scraped.server.stop()


def value(samples: Samples, name: str, **labels: str) -> float | None:
    return samples.get((name, frozenset(labels.items())))


def through_json(metrics: Metrics) -> Snapshot:
    snapshot: Snapshot = json.loads(json.dumps(metrics.snapshot()))
    return snapshot


def exercise(metrics: Metrics) -> None:
    """Touch every metric."""
    read = (Role.REPLICA, "db2:1", Reason.READ, Proof.KNOWN, Outcome.OK, "STRONG")
    metrics.course(*read).add(120)
    metrics.wait("db2:1", "reached", 900)
    metrics.fallback("db2:1", Reason.WAIT_TIMEOUT)
    metrics.confirmed("db2:1", "held")
    metrics.crowded("delayed")
    metrics.probed(3)
    metrics.audited("held")
    metrics.stale_proven()
    metrics.lost_gtids(2)
    metrics.errant_gtids("db2:1", 1)
    metrics.filtered("db2:1", lacking=True)
    metrics.lagging("db2:1", lagging=True)
    metrics.replicating("db2:1", replicating=True)
    metrics.scopes(4, 5)
    metrics.read_behind_another_connection()
    metrics.scopes_shared(1, 2)
    metrics.scopes_kept(3, 1)
    metrics.scopes_restored(2, 1)
    metrics.scopes_written(0.25, 2, 1)
    metrics.scope_file_failed()
    metrics.promoted()
    metrics.stale_given()
    metrics.split_conflict("error")
    metrics.wait_killed()
    metrics.kill_unanswered()
    metrics.waits_for_connection("db:3306", 2)
    metrics.waited_for_connection("db:3306", "connected")
    metrics.tracked += 2
    metrics.required_unknown("error")
    metrics.unknown_gtid_encoding()
    metrics.pins(frozenset(), frozenset({PinReason.HANDLER}))
    metrics.client_connected()
    metrics.client_refused("timeout")
    metrics.server_opened("db2:1")
    metrics.server_connected("db2:1")
    metrics.kept("db2:1", 3)
    metrics.kept_taken("db2:1")
    metrics.lent("db2:1")
    metrics.given_back("db1:1")
    metrics.not_given_back("pinned")
    metrics.borrowed("db1:1")
    metrics.rests_no_more()
    metrics.kept_dropped("db2:1", "age")
    metrics.tls_handshake("db2:1", resumed=True)
    metrics.server_connect_failed("db2:1", "refused")
    metrics.server_up("db2:1", True)
    metrics.server_watched("db2:1", True)
    metrics.server_writable("db2:1", False)
    metrics.primary_disputed(True)
    metrics.primary_term(2)
    metrics.differences("db2:1", (1, 2))
    metrics.lag("db2:1", 1.5)
    metrics.gap("db2:1", 1)
    metrics.source_lag("db2:1", {("", "u", "end_to_end"): 0.5})
    metrics.transaction_lag("db2:1", "u", "apply", 100)
    metrics.lag_means("db2:1", "binlog")
    metrics.binlog_stream_ended("db2:1", "lost")
    metrics.clock_offset("db2:1", -0.5)
    metrics.clock_warned("db2:1")
    metrics.error("server", 1064)
    metrics.protocol_error("client")
    metrics.routing_log_written(5)
    metrics.routing_log_grown(700)
    metrics.routing_log_stored(9000)
    metrics.routing_log_compressed(60)
    metrics.routing_log_deleted()
    metrics.routing_log_upkeep_failed("compress")
    metrics.routing_log_dropped(6)
    metrics.routing_log_failed()


def test_every_family_is_served_with_its_labels(scraped: Scraped) -> None:
    metrics = Metrics()
    exercise(metrics)
    scraped.snapshots = {0: through_json(metrics)}
    families = {
        family.name: family for family in text_string_to_metric_families(scraped.get("/metrics"))
    }
    definitions = ALL
    assert set(families) == {definition.name.removesuffix("_total") for definition in definitions}
    for definition in definitions:
        family = families[definition.name.removesuffix("_total")]
        assert family.type == definition.kind
        assert family.documentation == definition.help
        own = {"worker"} if definition in DEFINITIONS else set()
        assert family.samples, definition.name
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == {*definition.labels, *own}


def test_a_scrape_may_name_what_it_wants(scraped: Scraped) -> None:
    metrics = Metrics()
    exercise(metrics)
    scraped.snapshots = {0: metrics.snapshot()}
    samples = {name for name, _ in scraped.samples()}
    assert len(samples) > len(ALL)
    for name in samples:
        page = scraped.get(f"/metrics?name[]={name}")
        assert re.search(rf"^{name}[ {{]", page, re.MULTILINE), name


def test_every_family_is_documented() -> None:
    rows = re.findall(
        r"^\| `(tidegate_\w+)` \| (\w+) \|([^|]*)\| ([^|]+) \|$", DOCS.read_text(), re.MULTILINE
    )
    documented = [
        (name, kind, tuple(re.findall(r"`(\w+)`", labels)), text)
        for name, kind, labels, text in rows
    ]
    assert documented == [
        (definition.name, definition.kind, definition.labels, definition.help) for definition in ALL
    ]


def test_names_follow_the_conventions() -> None:
    for definition in ALL:
        assert re.fullmatch(r"tidegate_[a-z_]+", definition.name)
        if definition.kind == "histogram":
            assert definition.name.endswith("_seconds")
            assert list(definition.buckets_us) == sorted(set(definition.buckets_us))


def test_counts_reach_the_scrape(scraped: Scraped) -> None:
    metrics = Metrics()
    for _ in range(3):
        metrics.course("replica", "db2:1", "read", "known", "ok", "").add(120)
    metrics.course("replica", "db2:1", "read", "waited", "error", "").add(60_000_000)
    metrics.course("primary", "db1:1", "write", "primary", "ok", "").add(50)
    scraped.snapshots = {0: through_json(metrics)}
    samples = scraped.samples()
    total = "tidegate_statements_total"
    labels = {"worker": "0", "role": "replica", "server": "db2:1", "reason": "read"}
    assert value(samples, total, **labels, proof="known", outcome="ok") == 3
    assert value(samples, total, **labels, proof="waited", outcome="error") == 1
    name = "tidegate_statement_duration_seconds"
    labels = {"worker": "0", "role": "replica", "server": "db2:1"}
    assert value(samples, f"{name}_bucket", **labels, le="0.0001") == 0
    assert value(samples, f"{name}_bucket", **labels, le="0.0002") == 3
    assert value(samples, f"{name}_bucket", **labels, le="10.0") == 3
    assert value(samples, f"{name}_bucket", **labels, le="+Inf") == 4
    assert value(samples, f"{name}_count", **labels) == 4
    assert value(samples, f"{name}_sum", **labels) == pytest.approx(60.00036)
    labels = {"worker": "0", "role": "primary", "server": "db1:1"}
    assert value(samples, f"{name}_bucket", **labels, le="5e-05") == 1


def test_a_source_that_is_gone_is_gone_from_the_metrics() -> None:
    metrics = Metrics()
    metrics.source_lag("db2:1", {("", "u", "end_to_end"): 0.5, ("", "v", "end_to_end"): 0.5})
    metrics.source_lag("db3:1", {("", "u", "end_to_end"): 0.5})
    metrics.source_lag("db2:1", {("", "v", "end_to_end"): 0.0})
    values = metrics.snapshot()["values"]
    assert sorted(values["tidegate_replication_lag_seconds"]) == [
        (["db2:1", "", "v", "end_to_end"], 0.0),
        (["db3:1", "", "u", "end_to_end"], 0.5),
    ]
    metrics.source_lag("db2:1", None)
    values = metrics.snapshot()["values"]
    assert [labels[0] for labels, _ in values["tidegate_replication_lag_seconds"]] == ["db3:1"]
    measured = values["tidegate_replication_lag_measured"]
    assert {labels[0]: value for labels, value in measured} == {
        "db2:1": 0,
        "db3:1": 1,
    }


def test_sources_are_bounded() -> None:
    metrics = Metrics()
    for number in range(2 * MAX_LAG_SERIES):
        metrics.transaction_lag("db2:1", f"u{number}", "apply", 1)
    histograms = metrics.snapshot()["histograms"]["tidegate_transaction_lag_seconds"]
    assert len(histograms) == MAX_LAG_SERIES + 1
    assert ["db2:1", "other", "apply"] in [labels for labels, _, _ in histograms]


@given(st.integers(0, 2 * LATENCY_BUCKETS_US[-1]), st.integers(0, 2 * WAIT_BUCKETS_US[-1]))
def test_a_time_is_in_the_first_bucket_that_bounds_it(latency: int, wait: int) -> None:
    metrics = Metrics()
    metrics.course("r", "s", "x", "y", "z", "").add(latency)
    metrics.wait("s", "reached", wait)
    metrics.transaction_lag("s", "u", "end_to_end", wait)
    histograms = metrics.snapshot()["histograms"]
    for family, bounds, time in (
        (families.LATENCY, LATENCY_BUCKETS_US, latency),
        (families.WAITS, WAIT_BUCKETS_US, wait),
        (families.TRANSACTION_LAG, LAG_BUCKETS_US, wait),
    ):
        ((_, counts, total),) = histograms[family.name]
        below = [bound for bound in bounds if bound < time]
        assert counts == [int(index == len(below)) for index in range(len(bounds) + 1)]
        assert total == time / 1e6


def test_gauges_go_down_and_away(scraped: Scraped) -> None:
    metrics = Metrics()
    for _ in range(2):
        metrics.client_connected()
        metrics.server_connected("db1:1")
    metrics.client_disconnected()
    metrics.server_disconnected("db1:1")
    metrics.server_up("db1:1", True)
    metrics.server_up("db1:1", False)
    metrics.lag("db2:1", 2.5)
    metrics.lag("db3:1", 1.0)
    metrics.lag("db3:1", None)
    metrics.lag("db4:1", None)
    scraped.snapshots = {0: through_json(metrics)}
    samples = scraped.samples()
    assert value(samples, "tidegate_clients_connected", worker="0") == 1
    assert value(samples, "tidegate_client_connections_total", worker="0") == 2
    assert value(samples, "tidegate_server_connections", worker="0", server="db1:1") == 1
    assert value(samples, "tidegate_server_up", worker="0", server="db1:1") == 0
    lags = {labels for name, labels in samples if name == "tidegate_replica_lag_seconds"}
    assert lags == {frozenset({("worker", "0"), ("server", "db2:1")})}


def test_workers_are_told_apart(scraped: Scraped) -> None:
    first, second = Metrics(), Metrics()
    first.tracked += 1
    second.tracked += 20
    scraped.snapshots = {0: through_json(first), 1: None, 2: through_json(second)}
    samples = scraped.samples()
    tracked = [value(samples, "tidegate_gtids_tracked_total", worker=str(n)) for n in range(3)]
    assert tracked == [1, None, 20]
    up = [value(samples, "tidegate_worker_up", worker=str(number)) for number in range(3)]
    assert up == [1, 0, 1]
    assert value(samples, "tidegate_worker_restarts_total") == 3
    build = {"version": "1.2", "compiled": "true", "python": "3.11"}
    assert value(samples, "tidegate_build_info", **build) == 1


def test_labels_are_bounded(scraped: Scraped) -> None:
    metrics = Metrics()
    for code in range(66_000):
        metrics.error("server", code)
    values = metrics.snapshot()["values"]
    codes = {labels[1] for labels, _ in values["tidegate_errors_total"]}
    assert "1064" in codes
    assert "other" in codes
    assert len(codes) < 100


def test_snapshots_while_counting() -> None:
    """The other thread may have its turn wherever the collector runs, which calls functions."""
    metrics = Metrics()
    turns = count()
    servers = iter([f"db{number}:1" for number in range(100)])

    def meet(server: str) -> None:
        metrics.course("replica", server, "read", "known", "ok", "").add(1)
        metrics.wait(server, "reached", 1)
        metrics.fallback(server, "x")
        metrics.transaction_lag(server, "db:1", "apply", 1)

    def another_turn(phase: str, _: object) -> None:
        if phase == "start" and next(turns) % 7 == 0:
            meet(next(servers, "db0:1"))

    for server in islice(servers, 20):
        meet(server)
    threshold = gc.get_threshold()
    gc.callbacks.append(another_turn)
    gc.set_threshold(1)
    try:
        seen = [len(metrics.snapshot()["values"]["tidegate_fallbacks_total"]) for _ in range(20)]
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(another_turn)
    assert seen == sorted(seen)
    assert next(servers, None) is None
    assert len(metrics.snapshot()["values"]["tidegate_fallbacks_total"]) == 100


def test_http(scraped: Scraped) -> None:
    for path in ("/livez", "/readyz", "/healthz"):
        assert scraped.get(path) == "OK\n"
    scraped.trouble = "the primary is read only"
    assert scraped.get("/livez") == "OK\n"
    for path, status in (
        ("/readyz", 503),
        ("/healthz", 503),
        ("/", 404),
        ("/livez/x", 404),
        ("/metrics/x", 404),
    ):
        with pytest.raises(urllib.error.HTTPError) as caught:
            scraped.get(path)
        assert caught.value.code == status
        caught.value.close()
    assert scraped.status("POST", "/metrics") == 405


@pytest.mark.parametrize("version", ["new", "1.0.0", "2"])
def test_a_version_that_is_none_is_not_served(
    scraped: Scraped, version: str, capfd: pytest.CaptureFixture[str]
) -> None:
    accept = f"application/openmetrics-text;version={version}"
    assert scraped.status("GET", "/metrics", accept) == (406 if version == "new" else 200)
    assert capfd.readouterr().err == ""


def test_address_in_use(scraped: Scraped) -> None:
    collector = WorkersCollector(dict, lambda: 0, ("", "", ""))
    with pytest.raises(OSError, match="in use"):
        MetricsServer(scraped.server.address, collector, Health(str))


def test_every_cause_is_documented() -> None:
    counted = re.compile(
        r"\.(client_refused|server_connect_failed|required_unknown)\(.*\"(\w+)\"\)"
    )
    causes = {
        cause
        for source in (ROOT / "proxy").rglob("*.py")
        for _, cause in counted.findall(source.read_text())
    }
    assert len(causes) >= 5
    documented = set(re.findall(r"`(\w+)`", DOCS.read_text()))
    assert causes <= documented


def test_how_the_last_reload_went(scraped: Scraped) -> None:
    name = "tidegate_config_last_reload"
    for successful, at in ((None, 1000.5), (False, 1000.5), (True, 1003.5)):
        scraped.now += 1
        if successful is not None:
            scraped.last_reload.ended(successful=successful)
        text = scraped.get("/metrics")
        assert f"{name}_successful {float(successful is not False)}\n" in text
        assert f"{name}_success_timestamp_seconds {at}\n" in text
