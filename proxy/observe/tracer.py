"""Spans of OpenTelemetry for a sampled share of the statements.

This module imports the SDK (the extra `traces`), and is itself imported only if traces are switched
on. Each statement that is sampled becomes one span of kind CLIENT, as the semantic conventions for
database clients describe it (https://opentelemetry.io/docs/specs/semconv/database/database-spans/),
with a child for the time that it waited for a replica. A parent that is sampled is followed, one
that is not keeps its statements out; `trace-sample` is the share of those without a parent.

Spans go into a bounded queue (OTEL_BSP_MAX_QUEUE_SIZE, 2048), from which a thread exports them:
what does not fit is dropped, and an endpoint that does not answer delays no statement.
"""

import logging
import os
import re
import threading
from typing import TYPE_CHECKING, Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from proxy.address import Address
from proxy.observe.trace_parent import statement_text, trace_parent
from proxy.observe.traced_ledger import TracedSession
from proxy.version import VERSION
from proxy.wall_clock import utc_ns
from routing.consistency.decision import Outcome, Proof
from routing.sql.digest_text import digest_text
from routing.sql.query_summary import query_summary

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.sdk.trace.sampling import Sampler
    from opentelemetry.util.types import AttributeValue

    from routing.request.command import Command
    from routing.request.outcome import CommandOutcome
    from routing.servers.topology import Server

DEFAULT_SAMPLE: Final = 0.01
"""The share of statements without a parent, if neither the option nor OTEL_TRACES_SAMPLER says."""

_FLUSH_S: Final = 5.0
"""How long the last spans may take to be exported at a stop."""

_VERB: Final = re.compile(rb"[\s(;]*(?:/\*(?:[^*]|\*(?!/))*\*/[\s(;]*)*([A-Za-z]{1,16})")
_VERBS: Final = frozenset(
    {
        *("ALTER", "ANALYZE", "BEGIN", "CALL", "CHECK", "CHECKSUM", "COMMIT", "CREATE", "DELETE"),
        *("DEALLOCATE", "DESC", "DESCRIBE", "DO", "DROP", "EXECUTE", "EXPLAIN", "FLUSH", "GRANT"),
        *("HANDLER", "INSERT", "KILL", "LOAD", "LOCK", "OPTIMIZE", "PREPARE", "PURGE", "RELEASE"),
        *("RENAME", "REPAIR", "REPLACE", "REVOKE", "ROLLBACK", "SAVEPOINT", "SELECT", "SET"),
        *("SHOW", "START", "TABLE", "TRUNCATE", "UNLOCK", "UPDATE", "USE", "VALUES", "WITH", "XA"),
    }
)
_SCANNED: Final = 4096

_TEXTS: Final = 1024
"""Texts that are kept, each of at most 1 KB, so that one of a digest is made once."""

_log = logging.getLogger(__name__)


class Tracer:
    """Makes the spans of one worker."""

    def __init__(self, processor: "SpanProcessor", sample: float | None, worker: int) -> None:
        """Spans go to `processor`; `sample` is `trace-sample`, None if it is not given."""
        sampler: Sampler | None = None  # then OTEL_TRACES_SAMPLER says
        if sample is not None or "OTEL_TRACES_SAMPLER" not in os.environ:
            share = DEFAULT_SAMPLE if sample is None else sample
            sampler = ParentBased(TraceIdRatioBased(share))
        resource = Resource.create()  # of the OTEL_… variables
        named: dict[str, AttributeValue] = {"service.version": VERSION, "tidegate.worker": worker}
        if str(resource.attributes.get("service.name", "unknown_service")).startswith("unknown"):
            named["service.name"] = "tidegate"
        resource = resource.merge(Resource(named))
        self._provider = TracerProvider(sampler=sampler, resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("tidegate", VERSION)
        self._propagator = TraceContextTextMapPropagator()
        self._texts: dict[str, tuple[str, str]] = {}  # by digest

    def statement(
        self,
        command: "Command",
        outcome: "CommandOutcome",
        server: "Server | None",
        result: Outcome,
        error: int,
        session: TracedSession,
    ) -> None:
        """Make the span of a statement that has ended, if it is sampled."""
        carrier = trace_parent(command, query_attributes=session.query_attributes)
        context = self._propagator.extract(carrier) if carrier else None
        verb = _verb(command, query_attributes=session.query_attributes)
        schema = session.state.schema
        attributes: dict[str, AttributeValue] = {
            "db.system.name": "mysql",
            "db.operation.name": verb,
        }
        if schema:
            attributes["db.namespace"] = schema
        arrived_ns = command.arrived_us * 1000
        span = self._tracer.start_span(
            f"{verb} {schema}" if schema else verb,
            context,
            SpanKind.CLIENT,
            attributes,
            start_time=arrived_ns,
        )
        if not span.is_recording():
            return
        text, summary = self._described(command, session)
        if text:
            span.set_attribute("db.query.text", text)
        if summary:
            span.set_attribute("db.query.summary", summary)
            span.update_name(summary)  # the sampler has seen the other one, which costs less
        span.set_attributes(_attributes(command, outcome, server, session.session_id))
        if error:
            span.set_attribute("db.response.status_code", str(error))
            span.set_attribute("error.type", str(error))
        elif result is Outcome.LOST:
            span.set_attribute("error.type", "connection_lost")
        if result is not Outcome.OK:
            span.set_status(Status(StatusCode.ERROR))
        if outcome.wait_us > 0:
            self._wait(outcome, arrived_ns, set_span_in_context(span))
        span.end(max(utc_ns(), arrived_ns))

    def _described(self, command: "Command", session: TracedSession) -> tuple[str, str]:
        """The text of a statement without its literals, and its summary; empty if not known."""
        statement = command.statement
        if statement is None or not statement.digest:
            return "", ""
        found = self._texts.get(statement.digest)
        if found is None:
            sql = statement_text(command, query_attributes=session.query_attributes)
            text = digest_text(sql, session.state.lexer_modes.flags, statement.digest)
            if text is None:
                return "", ""
            found = text, query_summary(text)
            if len(self._texts) >= _TEXTS:
                self._texts.clear()
            self._texts[statement.digest] = found
        return found

    def _wait(self, outcome: "CommandOutcome", arrived_ns: int, context: "Context") -> None:
        """Make the span of the wait for a replica; after a vain one the statement went on later."""
        begin_ns, length_ns = outcome.dispatched_us * 1000, outcome.wait_us * 1000
        decision = outcome.decision
        if decision is None or decision.proof is not Proof.WAITED:
            begin_ns = max(arrived_ns, begin_ns - length_ns)
        wait = self._tracer.start_span(
            "WAIT_FOR_EXECUTED_GTID_SET",
            context,
            SpanKind.CLIENT,
            {"db.system.name": "mysql", "tidegate.proof": str(outcome.proof)},
            start_time=begin_ns,
        )
        wait.end(begin_ns + length_ns)

    def close(self) -> None:
        """Export what there is, for a few seconds at most."""
        # The SDK's own limits are ten times as long, and an export that is retried ignores them.
        ending = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        ending.start()
        ending.join(_FLUSH_S)
        if ending.is_alive():
            _log.warning("the last spans could not be exported in time")


def exporting(endpoint: str | None) -> BatchSpanProcessor:
    """A processor whose thread sends spans to an endpoint by OTLP over HTTP.

    Without one, and for everything else, the OTEL_EXPORTER_OTLP_… variables say.
    """
    return BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint))


def _attributes(
    command: "Command", outcome: "CommandOutcome", server: "Server | None", session_id: int
) -> dict[str, "AttributeValue"]:
    found: dict[str, AttributeValue] = {
        "tidegate.reason": outcome.reason or "",
        "tidegate.proof": outcome.proof or "",
        "tidegate.session": session_id,
    }
    if command.is_read:
        found["tidegate.level"] = str(command.rules.level)
    if command.statement is not None and command.statement.digest:
        found["tidegate.digest"] = command.statement.digest
    if outcome.fallbacks:
        found["tidegate.fallbacks"] = outcome.fallbacks
    if outcome.wait_us > 0:
        found["tidegate.wait_ms"] = outcome.wait_us / 1000
    if server is not None:
        address = Address.parse(server.name, default_host="", default_port=3306)
        found["server.address"] = address.host
        found["server.port"] = address.port
        found["tidegate.role"] = str(server.role)
    return found


def _verb(command: "Command", *, query_attributes: bool) -> str:
    """The operation of a command: of a statement its first word, if that is one of SQL."""
    if command.statement is None:
        return command.code.name
    text = statement_text(command, query_attributes=query_attributes)
    match = _VERB.match(text, 0, _SCANNED)
    word = match[1].decode().upper() if match is not None else ""
    return word if word in _VERBS else command.code.name
