"""Serves `/metrics` (Prometheus) and the probes over HTTP, in threads beside the event loop.

`/livez` says that this process lives: it answers 200 whatever the servers are, unless the only
event loop hangs. Who restarts a proxy for what a probe says asks it, since a restart mends no
server, and ends sessions that could have gone on. `/readyz`, and `/healthz` for who knows it by
that name, says whether clients' writes can be served now: who sends clients asks it.
"""

import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple, cast

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from proxy.address import Address
from proxy.observe.families import (
    BUILD,
    DEFINITIONS,
    RELOAD_SUCCEEDED_AT,
    RELOAD_SUCCESSFUL,
    WORKER_RESTARTS,
    WORKER_UP,
    Definition,
)
from proxy.observe.http_server import HttpServer
from proxy.observe.snapshot import Snapshot

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from proxy.reload.last_reload import LastReload


class WorkersCollector(Collector):
    """Gives Prometheus the counts of all workers.

    Args:
        snapshots: takes a snapshot of each worker, by its number; None for one that does not
            answer.
        restarts: number of workers that were started again.
        build: what runs: version, "true" or "false" for compiled, Python's version.
        last_reload: how the last reload went; None if that is not to be shown.

    """

    def __init__(
        self,
        snapshots: Callable[[], Mapping[int, Snapshot | None]],
        restarts: Callable[[], int],
        build: tuple[str, str, str],
        last_reload: "LastReload | None" = None,
    ) -> None:
        self._snapshots = snapshots
        self._restarts = restarts
        self._build = build
        self._last_reload = last_reload

    def collect(self) -> Iterable[Metric]:
        """Take the snapshots and yield every family."""
        snapshots = self._snapshots()
        yield from merge(
            {str(worker): snapshot for worker, snapshot in snapshots.items() if snapshot}
        )
        yield from self._of_processes(snapshots)

    def describe(self) -> Iterable[Metric]:
        """Name the families without taking a snapshot.

        The registry checks for duplicates by it, and finds the families that a scrape names.
        """
        yield from merge({})
        yield from self._of_processes({})

    def _of_processes(self, snapshots: Mapping[int, Snapshot | None]) -> Iterable[Metric]:
        build = GaugeMetricFamily(BUILD.name, BUILD.help, labels=BUILD.labels)
        build.add_metric(self._build, 1)
        yield build
        up = GaugeMetricFamily(WORKER_UP.name, WORKER_UP.help, labels=WORKER_UP.labels)
        for worker, snapshot in snapshots.items():
            up.add_metric([str(worker)], 0 if snapshot is None else 1)
        yield up
        yield CounterMetricFamily(
            WORKER_RESTARTS.name, WORKER_RESTARTS.help, value=self._restarts()
        )
        last = self._last_reload
        if last is not None:
            for definition, value in (
                (RELOAD_SUCCESSFUL, float(last.successful)),
                (RELOAD_SUCCEEDED_AT, last.succeeded_at),
            ):
                yield GaugeMetricFamily(definition.name, definition.help, value=value)


def merge(snapshots: Mapping[str, Snapshot]) -> Iterable[Metric]:
    """Turn the snapshots of several workers into families with the label `worker`."""
    for definition in DEFINITIONS:
        if definition.kind == "histogram":
            yield _histogram(definition, snapshots)
        else:
            make = CounterMetricFamily if definition.kind == "counter" else GaugeMetricFamily
            family = make(definition.name, definition.help, labels=("worker", *definition.labels))
            for worker, snapshot in snapshots.items():
                for labels, value in snapshot["values"][definition.name]:
                    family.add_metric([worker, *labels], value)
            yield family


def _histogram(definition: Definition, snapshots: Mapping[str, Snapshot]) -> Metric:
    family = HistogramMetricFamily(
        definition.name, definition.help, labels=("worker", *definition.labels)
    )
    bounds = [str(bound / 1e6) for bound in definition.buckets_us]
    for worker, snapshot in snapshots.items():
        for labels, counts, total in snapshot["histograms"][definition.name]:
            buckets: list[tuple[str, float]] = []
            below = 0
            for bound, count in zip([*bounds, "+Inf"], counts, strict=True):
                below += count
                buckets.append((bound, below))
            family.add_metric([worker, *labels], buckets, total)
    return family


def _nothing() -> str:
    return ""


class Health(NamedTuple):
    """What the probes ask; each text is empty if all is well.

    Attributes:
        trouble: why `/readyz` and `/healthz` answer 503.
        stuck: why `/livez` does: nobody but who asks could start this process anew.
    """

    trouble: Callable[[], str]
    stuck: Callable[[], str] = _nothing


class MetricsServer:
    """An HTTP server on one address.

    Args:
        address: where to listen; port 0 takes a free one.
        collector: what `/metrics` shows.
        health: what the probes answer.
        pages: serves what is below `/v1/`; None if nothing does.
        listening: a socket that is bound there already, if there is one.

    Raises:
        OSError: the address cannot be used.

    """

    def __init__(
        self,
        address: Address,
        collector: Collector,
        health: Health,
        pages: "WSGIApplication | None" = None,
        listening: socket.socket | None = None,
    ) -> None:
        registry = CollectorRegistry()
        registry.register(collector)
        self._metrics = make_wsgi_app(registry)
        self._health = health
        self._pages = pages
        self._server = HttpServer(address, self._serve, listening)
        self.address = Address(address.host, self._server.server_port)
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="metrics", daemon=True
        )

    @property
    def listening(self) -> socket.socket:
        """The socket at which it listens."""
        return self._server.socket

    def start(self) -> None:
        """Serve from now on, in threads of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Stop serving and close the port; it may have been stopped before, or never started."""
        if self._thread.ident is not None:
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def _serve(self, environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if self._pages is not None and path.startswith("/v1/"):
            return self._pages(environ, start)
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return _plain(start, HTTPStatus.METHOD_NOT_ALLOWED)
        if path == "/metrics":
            try:
                choose_encoder(environ.get("HTTP_ACCEPT", ""))
            except TypeError:  # it asks for a version that is none, over which the library stumbles
                return _plain(start, HTTPStatus.NOT_ACCEPTABLE)
            return cast("Iterable[bytes]", self._metrics(environ, start))
        if path == "/livez":
            return _probe(start, self._health.stuck())
        if path in ("/readyz", "/healthz"):
            return _probe(start, self._health.trouble())
        return _plain(start, HTTPStatus.NOT_FOUND)


def _probe(start: "StartResponse", wrong: str) -> Iterable[bytes]:
    if wrong:
        return _plain(start, HTTPStatus.SERVICE_UNAVAILABLE, wrong)
    return _plain(start, HTTPStatus.OK)


def _plain(start: "StartResponse", status: HTTPStatus, text: str = "") -> Iterable[bytes]:
    body = f"{text or status.phrase}\n".encode()
    start(
        f"{status.value} {status.phrase}",
        [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))],
    )
    return [body]
