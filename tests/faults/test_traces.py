"""Spans of statements: which there are, what they say, and what a bad endpoint does to sessions."""

import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from protocol.constants import Capability
from proxy.observe import tracer
from tests.faults.client import MODERN, attributed, query
from tests.faults.proxy_fixture import ProxyFixture, eventually
from tests.faults.table_fixture import COUNT, apply, count, execute, table_fixture
from tests.faults.test_prepared import number, prepare
from tests.faults.test_session_memory import first_execution

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT_SPAN = "b7ad6b7169203331"
SAMPLED = f"00-{TRACE}-{PARENT_SPAN}-01"
UNSAMPLED = f"00-{TRACE}-{PARENT_SPAN}-00"


@asynccontextmanager
async def traced(
    monkeypatch: pytest.MonkeyPatch, **options: Any
) -> AsyncIterator[tuple[ProxyFixture, InMemorySpanExporter]]:
    """A proxy whose spans stay in memory."""
    exporter = InMemorySpanExporter()
    monkeypatch.setattr(tracer, "exporting", lambda _: SimpleSpanProcessor(exporter))
    async with table_fixture(**{"trace_sample": 1.0, "wait_budget": 2.0, **options}) as proxy:
        yield proxy, exporter


def spans(exporter: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in exporter.get_finished_spans() if span.name == name]


def parent_of(span: ReadableSpan) -> str:
    return "" if span.parent is None else f"{span.parent.span_id:016x}"


async def test_a_span_says_where_a_statement_went_and_why(monkeypatch: pytest.MonkeyPatch) -> None:
    async with traced(monkeypatch) as (proxy, exporter):
        client = await proxy.session()
        await execute(client, "/* a */ (SELECT 'secret' FROM t)")
        await client.query("SELECT nothing FROM t")
        read, failed = spans(exporter, "SELECT t")
        assert read.kind is SpanKind.CLIENT
        assert read.attributes is not None
        assert failed.attributes is not None
        replica = proxy.cluster.replicas[0]
        assert read.attributes["db.system.name"] == "mysql"
        assert read.attributes["db.operation.name"] == "SELECT"
        assert read.attributes["db.namespace"] == "test"
        assert read.attributes["db.query.text"] == "( SELECT ? FROM t )"
        assert read.attributes["db.query.summary"] == "SELECT t"
        assert read.attributes["server.address"] == "127.0.0.1"
        assert read.attributes["server.port"] == replica.port
        assert read.attributes["tidegate.role"] == "replica"
        assert read.attributes["tidegate.level"] == "READ_OWN_WRITES"
        assert read.attributes["tidegate.reason"] == "read"
        assert read.attributes["tidegate.proof"] == "known"
        assert "secret" not in str(read.attributes)
        assert read.status.status_code is StatusCode.UNSET
        assert read.start_time is not None
        assert read.end_time is not None
        assert 0 < read.start_time <= read.end_time <= time.time_ns()
        assert failed.attributes["db.response.status_code"] == "1054"
        assert failed.attributes["error.type"] == "1054"
        assert failed.status.status_code is StatusCode.ERROR
        assert read.resource.attributes["service.name"] == "tidegate"


async def test_a_text_is_shown_without_literals_or_not_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with traced(monkeypatch) as (proxy, exporter):
        client = await proxy.session(capabilities=MODERN | Capability.CLIENT_QUERY_ATTRIBUTES)
        statement = await prepare(client, "SELECT 'secret', ? FROM t")
        await first_execution(client, statement, [number(77)])
        for sql in (
            "SET @a = 'secret'",
            "INSERT INTO t VALUES (77) /* secret */",
            "SELECT /*!50000 'secret' */ FROM t",
            "SELECT '" + "secret" * 12000 + "' FROM t",
            "CREATE USER u IDENTIFIED BY 'secret'",
            'SELECT "secret"',
            "SHOW TIDEGATE SESSION",
        ):
            await client.query(sql)
        await client.ping()
        found = exporter.get_finished_spans()
        shown = [(span.attributes or {}).get("db.query.text") for span in found]
        assert "secret" not in str([(span.name, span.attributes) for span in found])
        assert "77" not in str(shown)
        assert "SELECT ? , ? FROM t" in shown
        assert "SET @a = ?" in shown
        assert shown[-1] is None
        (written,) = spans(exporter, "INSERT t")
        assert (written.attributes or {})["db.query.text"] == "INSERT INTO t VALUES (...)"
        assert sum(text is None for text in shown) >= 3


async def test_a_wait_is_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    async with traced(monkeypatch) as (proxy, exporter):
        client = await proxy.session()
        await execute(client, "INSERT INTO t VALUES (1)")
        client.send(query(COUNT))
        replica = proxy.cluster.replicas[0]
        await eventually(lambda: any("WAIT_FOR" in text for _, text in replica.statements))
        apply(proxy, True)
        await client.answer()
        (wait,) = spans(exporter, "WAIT_FOR_EXECUTED_GTID_SET")
        (read,) = spans(exporter, "SELECT t")
        assert read.context is not None
        assert parent_of(wait) == f"{read.context.span_id:016x}"
        assert read.attributes is not None
        assert read.attributes["tidegate.proof"] == "waited"
        assert isinstance(read.attributes["tidegate.wait_ms"], float)
        assert read.start_time is not None
        assert wait.start_time is not None
        assert wait.end_time is not None
        assert read.end_time is not None
        assert read.start_time <= wait.start_time <= wait.end_time <= read.end_time


@pytest.mark.parametrize("sample", [0.0, 1.0])
@pytest.mark.parametrize("place", ["attribute", "comment"])
async def test_a_sampled_parent_is_followed_and_an_unsampled_one_is_not(
    place: str, sample: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with traced(monkeypatch, trace_sample=sample) as (proxy, exporter):
        client = await proxy.session(capabilities=MODERN | Capability.CLIENT_QUERY_ATTRIBUTES)
        exporter.clear()
        for parent in (SAMPLED, UNSAMPLED):
            if place == "attribute":
                client.send(attributed(COUNT, traceparent=parent))
                await client.answer()
            else:
                assert (await client.query(f"{COUNT} /*traceparent='{parent}'*/")).value == b"0"
        (span,) = spans(exporter, "SELECT t")
        assert span.context is not None
        assert f"{span.context.trace_id:032x}" == TRACE
        assert parent_of(span) == PARENT_SPAN
        await count(client)
        assert len(spans(exporter, "SELECT t")) == 1 + int(sample)


async def test_without_the_options_there_is_no_tracer(monkeypatch: pytest.MonkeyPatch) -> None:
    async with traced(monkeypatch, trace_sample=None) as (proxy, exporter):
        client = await proxy.session()
        assert (await client.query(f"{COUNT} /*traceparent='{SAMPLED}'*/")).value == b"0"
        assert not exporter.get_finished_spans()


@contextmanager
def collector(status: int = 200) -> Iterator[tuple[str, list[ExportTraceServiceRequest]]]:
    """Something that takes OTLP over HTTP: its URL, and what it got."""
    got: list[ExportTraceServiceRequest] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/traces", got
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def test_spans_reach_a_collector() -> None:
    with collector() as (url, got):
        async with table_fixture(trace_endpoint=url, trace_sample=1.0) as proxy:
            client = await proxy.session()
            assert (await client.query(f"{COUNT} /*traceparent='{SAMPLED}'*/")).value == b"0"
            proxy.shared.ledger.close()
        found = [
            span
            for request in got
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
            if span.trace_id.hex() == TRACE
        ]
        assert [span.name for span in found] == ["SELECT t"]
        assert found[0].parent_span_id.hex() == PARENT_SPAN


@pytest.mark.parametrize("broken", ["refuses", "unreachable"])
async def test_an_endpoint_that_fails_harms_no_session(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "8")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4")
    monkeypatch.setattr(tracer, "_FLUSH_S", 0.1)
    made: list[BatchSpanProcessor] = []
    exporting = tracer.exporting

    def remembered(endpoint: str | None) -> BatchSpanProcessor:
        made.append(exporting(endpoint))
        return made[-1]

    monkeypatch.setattr(tracer, "exporting", remembered)
    with collector(500) as (url, _):
        endpoint = url if broken == "refuses" else "http://127.0.0.1:1/v1/traces"
        async with table_fixture(trace_endpoint=endpoint, trace_sample=1.0) as proxy:
            client = await proxy.session()
            for _ in range(40):  # more than the queue holds
                assert await count(client) == 0
            proxy.shared.ledger.close()
            assert await count(client) == 0
    assert len(made) == 1


def test_a_stop_does_not_wait_for_an_export_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracer, "_FLUSH_S", 0.05)
    answered = threading.Event()

    class Hanging(SpanProcessor):
        def shutdown(self) -> None:
            answered.wait()

    tracer.Tracer(Hanging(), 1.0, 0).close()
    assert not answered.is_set()
    answered.set()
