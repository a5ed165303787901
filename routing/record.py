"""One line of the routing log: its fields, their order and their types, version 1.

Every statement gives one record. `FIELDS` is the contract with the audit; a test compares it with
the Spark schema. Times are UTC microseconds since the epoch by the proxy's clock. `seq` is gapless
per worker and start, so a reader knows what it did not see. Every `run` (one start of one worker)
begins at `seq` 1. `ordinal` is gapless per session, so a reader knows whose statements are missing.

A "proof" record tells of a set that a server showed outside of any statement's record:
`dispatched_us` is when the server was asked, `ended_us` when it had answered, `proof` is "probed"
(then `proof_set` is its whole `@@GLOBAL.gtid_executed`) or "waited" (a WAIT returned 0 whose
statement was then answered elsewhere). Whatever makes a server's applied set grow stands in the log
before the first read that relies on it: as a waited statement, as an observed set, or as such a
record. So does the set of the primary that a BOUNDED_STALENESS read relies on, once for all reads
whose bound it is within: answers with nothing new are logged only for this reason.

`level`, `scope` and what belongs to them are the statement's, which may differ from its session's.
`scope_key` names the scope among all of its kind: connection "<run>/<session>", user
"<proxy>/<user>", application "<proxy>/<key>", proxy "<proxy>". A write counts in every scope that
it belongs to, whichever its record names: its connection, its user, its application, its proxy.

A "proof" record may have one field more, `lag` (`LAG`): what the monitor saw of a replica's lag by
commit timestamps (`routing.servers.lag`). No reader needs it, and earlier ones ignore it.

A "statement" record may have one field more, `snapshot_us` (`SNAPSHOT`): the read shares the
snapshot of a READ ONLY transaction, and this is when the snapshot was asked for: the arrival of its
first read. A read must see what there was at that moment. A reader that ignores the field judges
later reads by their own arrival, which is too strict.

A "statement" record may also have `tables` (`TABLES`): the read's proof is "independent", and these
are the base tables that it may depend on, each as `` `schema`.`table` ``, separated by commas. What
it had to see and its server need not have is `required` without `proof_set`: that changed none of
them. If it waited (`wait_us`), `proof_set` is what it waited for; that WAIT has a "proof" record of
its own.

A "gap" record tells of records that were not kept: `arrived_us` and `dispatched_us` are the first
dropped one's arrival, `ended_us` is the last dropped one's end.

Fields that do not apply to a kind of record are empty, 0, false or null.

Rendering is the hot path of the routing log: it happens once per statement on the event loop. What
is constant per session, per statement text and per server is rendered once into fragments by the
functions below; a record is then a tuple of texts, most of which it shares with others. They are
joined by the thread that writes them. Only fragments hold text that needs escaping; all other texts
are GTID sets, server names and names of enums, which hold no quote, backslash or control character.
"""

import json
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from protocol.gtid import EMPTY
from routing.consistency.decision import Level, Proof
from routing.consistency.independence import Independence
from routing.consistency.rules import Rules
from routing.request.command import Command
from routing.request.outcome import CommandOutcome
from routing.servers.lag import Lag, Transaction
from routing.sql.table_meanings import tables_text

RECORD_VERSION: Final = 1

FIELDS: Final[tuple[tuple[str, type, bool], ...]] = (
    # name, JSON type, may be null
    ("v", int, False),
    ("kind", str, False),  # "statement", "proof" or "gap"
    ("proxy", str, False),  # the proxy's name: host name unless configured
    ("worker", int, False),
    ("run", str, False),  # hex, one per start of a worker
    ("seq", int, False),
    ("dropped", int, False),  # of a gap, which uses up `dropped` seqs before its own
    ("ordinal", int, False),  # of the statement in its session, from 1; dropped ones count
    ("session", int, False),  # the connection id that the client was given
    ("user", str, False),
    ("schema", str, True),
    ("scope", str, False),
    ("scope_key", str, False),  # see above
    ("application", str, True),  # key of the session's or statement's application; null: none
    ("level", str, False),  # a level's name, without its bound
    ("bound_us", int, True),  # of BOUNDED_STALENESS: how old a state may be; else null
    ("command", str, False),  # COM_QUERY, …
    ("class", str, False),  # routing.sql.statement.StatementClass
    ("digest", str, True),  # hex of the normalised statement's hash; null for what is no statement
    ("may_write", bool, False),
    ("arrived_us", int, False),  # the client's packet was complete
    ("dispatched_us", int, False),  # the statement went to the server that answered it
    ("ended_us", int, False),  # just before the answer's end was passed to the client
    ("required", str, True),  # GTID set the read had to see; null: unknown; "" nothing
    ("server", str, True),  # host:port of the server that answered; null: none did
    ("server_uuid", str, True),
    ("incarnation", int, True),  # the epoch in which the server answered; no proof outlives one
    ("role", str, True),  # as which the server was chosen
    ("reason", str, False),
    ("proof", str, False),
    ("proof_set", str, True),  # waited: the set waited for; known, independent: the applied set
    ("wait_us", int, False),  # from the WAIT's dispatch (`dispatched_us` if waited) to its answer
    ("fallbacks", str, False),  # comma-separated "<server>:<reason>" of attempts before this one
    ("outcome", str, False),
    ("error_code", int, False),  # 0 unless outcome is "error"
    ("own_gtids", str, False),  # GTIDs that the server reported for this statement (OWN_GTID)
    ("own_known", bool, False),  # false: it may have committed what own_gtids does not name
    ("observed", str, False),  # an ALL_GTIDS set, where one was reported
    ("bytes", int, False),  # of the answer, as sent by the server
    ("rows", int, True),  # null where they were not counted
)

SNAPSHOT: Final[tuple[tuple[str, type, bool], ...]] = (("snapshot_us", int, True),)
"""The field that a "statement" record may have after all others."""

TABLES: Final[tuple[tuple[str, type, bool], ...]] = (("tables", str, True),)
"""Another one, behind that."""

LAG: Final[dict[str, tuple[tuple[str, type, bool], ...]]] = {
    "applied": (  # transactions since the look before, as far as seen
        ("channel", str, False),
        ("gtid", str, False),
        ("original_us", int, True),  # UTC, by the clock of the server that committed it first
        ("immediate_us", int, True),  # of the immediate source
        ("began_us", int, True),  # of the replica
        ("ended_us", int, True),
        ("end_to_end_us", int, True),  # from original to ended, corrected by the clocks
        ("last_hop_us", int, True),  # from immediate to ended, likewise
        ("error_us", int, True),  # how far end_to_end_us may be off; null: nobody knows
    ),
    "waits": (  # sources of which something is missing
        ("channel", str, False),
        ("source", str, False),
        ("waits_us", int, True),  # age of the oldest transaction that is known to be missing
        ("hop_waits_us", int, True),  # the same by its immediate commit
    ),
}
"""The field `lag`: an object of two lists."""

NO_SERVER: Final = '"server":null,"server_uuid":null,"incarnation":null,"role":null'
"""The server fragment of a statement that no server answered."""

_MANY: Final = 1000
_NUMBERS: Final = [str(number) for number in range(_MANY)]
_OK: Final = "ok"
_INDEPENDENT: Final = Proof.INDEPENDENT

# What stands between the values of a record. A set that is null has no quotes.
_ORDINAL: Final = ',"dropped":0,"ordinal":'
_SESSION: Final = ","
_STATEMENT: Final = ","
_ARRIVED: Final = ',"arrived_us":'
_DISPATCHED: Final = ',"dispatched_us":'
_ENDED: Final = ',"ended_us":'
_REQUIRED: Final = ',"required":"', '",'
_REQUIRED_NULL: Final = ',"required":null', ","
_PROOF_SET: Final = ',"proof_set":"', '",'
_PROOF_SET_NULL: Final = ',"proof_set":null', ","
_WAIT: Final = '"wait_us":'
_BEHIND_WAIT: Final = f',"fallbacks":"","outcome":"{_OK}","error_code":0,'
_PLAIN_COURSE: Final = f"{_WAIT}0{_BEHIND_WAIT}"
_NO_GTIDS: Final = '"own_gtids":"","own_known":true,"observed":"","bytes":'
_ROWS: Final = ',"rows":'
_END: Final = "}\n"
_AROUND: Final = sum(
    map(len, (_ORDINAL, _SESSION, _STATEMENT, _ARRIVED, _DISPATCHED, _ENDED, _ROWS, _END))
)


def session_fragment(
    session: int, user: str, schema: str | None, scope_key: str, rules: Rules
) -> str:
    """Render what is constant until the session changes its user, schema or rules."""
    bound_us = "null"
    if rules.level is Level.BOUNDED_STALENESS:
        bound_us = str(round(rules.staleness * 1e6))
    return (
        f'"session":{session:d},"user":{_quoted(user)},"schema":{_nullable(schema)},'
        f'"scope":{_quoted(rules.scope.value)},"scope_key":{_quoted(scope_key)},'
        f'"application":{_nullable(rules.application or None)},'
        f'"level":{_quoted(rules.level.value)},"bound_us":{bound_us}'
    )


def statement_fragment(
    command: str, statement_class: str, digest: str | None, may_write: bool
) -> str:
    """Render what is constant for one classified statement text."""
    return (
        f'"command":{_quoted(command)},"class":{_quoted(statement_class)},'
        f'"digest":{_nullable(digest)},"may_write":{"true" if may_write else "false"}'
    )


def server_fragment(server: str, server_uuid: str | None, role: str, incarnation: int) -> str:
    """Render what is constant for one incarnation (`Server.epoch`) of a server in one role."""
    return (
        f'"server":{_quoted(server)},"server_uuid":{_nullable(server_uuid)},'
        f'"incarnation":{incarnation:d},"role":{_quoted(role)}'
    )


def lag_fragment(lag: Lag, applied: Sequence[Transaction]) -> str:
    """Render what a look told of a replica's lag; empty if that is nothing new."""
    waits = [source for source in lag.sources if source.waits is not None and source.waits.us > 0]
    if not applied and not waits:
        return ""
    rendered = {
        "applied": [
            {
                "channel": transaction.channel,
                "gtid": transaction.stamped.gtid,
                "original_us": transaction.stamped.original_us,
                "immediate_us": transaction.stamped.immediate_us,
                "began_us": transaction.stamped.began_us,
                "ended_us": transaction.stamped.ended_us,
                "end_to_end_us": None
                if transaction.end_to_end is None
                else transaction.end_to_end.us,
                "last_hop_us": None if transaction.last_hop is None else transaction.last_hop.us,
                "error_us": None
                if transaction.end_to_end is None
                else transaction.end_to_end.error_us,
            }
            for transaction in applied
        ],
        "waits": [
            {
                "channel": source.channel,
                "source": source.source,
                "waits_us": None if source.waits is None else source.waits.us,
                "hop_waits_us": None if source.hop_waits is None else source.hop_waits.us,
            }
            for source in waits
        ],
    }
    return ',"lag":' + json.dumps(rendered, separators=(",", ":"))


class Route:
    """What is the same in the records of all that a server answered for one reason, by one proof.

    Attributes:
        fragment: server, reason and proof, rendered.
        result: how the statements ended, which is another route where that differs.
    """

    def __init__(self, server_fragment: str, reason: str, proof: str, result: str) -> None:
        # Formatting a StrEnum costs twice a str.
        self.fragment: Final = f'{server_fragment},"reason":"{reason}","proof":"{proof}"'
        self.result: Final = result


class RecordStream:
    """Numbers and renders the records of one run of one worker into a bounded queue of lines.

    One thread calls `statement`; one other thread may call `take` at the same time. When the lines
    not yet taken exceed the bound, statements are counted instead of rendered, `on_drop` is called
    for each, and one gap record stands for them as soon as there is room again.

    Attributes:
        run: hex name of this start of this worker.
        dropped: records that were not kept, since the start.
        seq: the number that was used last.

    """

    def __init__(
        self,
        proxy: str,
        worker: int,
        run: str,
        max_pending_bytes: int,
        on_drop: Callable[[], None] | None = None,
    ) -> None:
        self.run = run
        self.seq = 0
        self.dropped = 0
        self._statement_head = _head("statement", proxy, worker, run)
        self._proof_head = _head("proof", proxy, worker, run)
        self._gap_head = _head("gap", proxy, worker, run)
        self._records: deque[tuple[str, ...]] = deque()
        self._max_pending_bytes = max_pending_bytes
        self._on_drop = on_drop
        # Two counters, each changed by one thread only, so that no lock is needed.
        self._bytes_in = 0
        self._bytes_out = 0
        self._gap_dropped = 0
        self._gap_from_us = 0
        self._gap_to_us = 0

    def statement(
        self,
        session_fragment: str,
        statement_fragment: str,
        route: Route,
        command: Command,
        outcome: CommandOutcome,
        error_code: int = 0,
        rows: int | None = None,
    ) -> None:
        """Add one statement's record; never blocks, never fails.

        Args:
            session_fragment: as its function renders it, likewise `statement_fragment`.
            statement_fragment: see there.
            route: who answered, why, and how it ended.
            command: the statement.
            outcome: what became of it; its end and its place in the session are known.
            error_code: of the error that the client was given, or 0.
            rows: of the answer, if they were counted.
        """
        arrived_us, ended_us = command.arrived_us, outcome.ended_us
        if self._bytes_in - self._bytes_out > self._max_pending_bytes:
            self._drop(arrived_us, ended_us)
            return
        if self._gap_dropped:
            self._add_gap()
        self.seq += 1
        seq = _number(self.seq)
        ordinal_text = _number(outcome.ordinal)
        # By `str`, since an f-string of one number alone is formatted by a call.
        arrived = str(arrived_us)
        dispatched_us = outcome.dispatched_us
        dispatched = arrived if dispatched_us == arrived_us else str(dispatched_us)
        ended = str(ended_us)
        gtids = outcome.required
        if gtids is None:
            before_required, behind_required = _REQUIRED_NULL
            required = ""
        else:
            before_required, behind_required = _REQUIRED
            required = gtids.text
        gtids = outcome.proof_set
        if gtids is None:
            before_proof_set, behind_proof_set = _PROOF_SET_NULL
            proof_set = ""
        else:
            before_proof_set, behind_proof_set = _PROOF_SET
            proof_set = gtids.text
        course = _PLAIN_COURSE
        wait_us, fallbacks, result = outcome.wait_us, outcome.fallbacks, route.result
        if wait_us and result == _OK and not error_code and not fallbacks:
            course = _WAIT + str(wait_us) + _BEHIND_WAIT
        elif result != _OK or error_code or fallbacks:
            course = (
                f'"wait_us":{wait_us},"fallbacks":"{fallbacks}","outcome":"{result}",'
                f'"error_code":{error_code},'
            )
        own = _NO_GTIDS
        if outcome.own is not EMPTY or outcome.observed is not EMPTY or not outcome.own_known:
            own = _own_fragment(outcome)
        size = _number(outcome.received)
        counted = "null" if rows is None else _number(rows)
        if outcome.snapshot_us:
            counted = f'{counted},"snapshot_us":{outcome.snapshot_us}'
        if outcome.proof is _INDEPENDENT:
            counted += _tables_fragment(outcome.independence)
        route_fragment = route.fragment
        self._bytes_in += (
            (
                _AROUND
                + len(self._statement_head)
                + len(seq)
                + len(ordinal_text)
                + len(session_fragment)
            )
            + (len(statement_fragment) + len(arrived) + len(dispatched) + len(ended))
            + (len(before_required) + len(required) + len(behind_required) + len(route_fragment))
            + (len(before_proof_set) + len(proof_set) + len(behind_proof_set) + len(course))
            + (len(own) + len(size) + len(counted))
        )
        self._records.append(
            (
                self._statement_head,
                seq,
                _ORDINAL,
                ordinal_text,
                _SESSION,
                session_fragment,
                _STATEMENT,
                statement_fragment,
                _ARRIVED,
                arrived,
                _DISPATCHED,
                dispatched,
                _ENDED,
                ended,
                before_required,
                required,
                behind_required,
                route_fragment,
                before_proof_set,
                proof_set,
                behind_proof_set,
                course,
                own,
                size,
                _ROWS,
                counted,
                _END,
            )
        )

    def proof(
        self,
        server_fragment: str,
        proof: str,
        proof_set: str,
        asked_us: int,
        answered_us: int,
        lag: str = "",
    ) -> None:
        """Add what a server showed outside of a statement's record ("probed" or "waited").

        `lag` is a `lag_fragment`.
        """
        if self._bytes_in - self._bytes_out > self._max_pending_bytes:
            self._drop(asked_us, answered_us)
            return
        if self._gap_dropped:
            self._add_gap()
        self.seq += 1
        line = (
            f'{self._proof_head}{self.seq},"dropped":0,"ordinal":0,{_NO_SESSION},{_NO_STATEMENT},'
            f'"arrived_us":{asked_us},"dispatched_us":{asked_us},"ended_us":{answered_us},'
            f'"required":null,{server_fragment},"reason":"","proof":"{proof}",'
            f'"proof_set":"{proof_set}","wait_us":0,"fallbacks":"","outcome":"","error_code":0,'
            f'"own_gtids":"","own_known":false,"observed":"","bytes":0,"rows":null{lag}}}\n'
        )
        self._bytes_in += len(line)
        self._records.append((line,))

    def take(self, max_lines: int) -> str:
        """Remove and join the oldest lines, at most `max_lines`; "" when there is none."""
        records = self._records
        parts: list[str] = []
        for _ in range(min(max_lines, len(records))):
            parts += records.popleft()
        text = "".join(parts)
        self._bytes_out += len(text)
        return text

    def finish(self) -> None:
        """Tell of a gap that is still open, at the end of the run."""
        if self._gap_dropped:
            self._add_gap()

    def _drop(self, arrived_us: int, ended_us: int) -> None:
        if not self._gap_dropped:
            self._gap_from_us = arrived_us
        self._gap_to_us = ended_us
        self._gap_dropped += 1
        self.dropped += 1
        self.seq += 1
        if self._on_drop is not None:
            self._on_drop()

    def _add_gap(self) -> None:
        self.seq += 1
        line = (
            f'{self._gap_head}{self.seq},"dropped":{self._gap_dropped},"ordinal":0,{_NO_SESSION},'
            f'{_NO_STATEMENT},"arrived_us":{self._gap_from_us},"dispatched_us":{self._gap_from_us},'
            f'"ended_us":{self._gap_to_us},"required":null,{NO_SERVER},"reason":"","proof":"",'
            f'"proof_set":null,"wait_us":0,"fallbacks":"","outcome":"","error_code":0,"own_gtids":"",'
            f'"own_known":false,"observed":"","bytes":0,"rows":null}}\n'
        )
        self._gap_dropped = 0
        self._bytes_in += len(line)
        self._records.append((line,))


def _tables_fragment(independence: Independence | None) -> str:
    if independence is None:
        return ""
    return ',"tables":' + json.dumps(tables_text(independence.tables))


def _own_fragment(outcome: CommandOutcome) -> str:
    known = "true" if outcome.own_known else "false"
    return (
        f'"own_gtids":"{outcome.own.text}","own_known":{known},'
        f'"observed":"{outcome.observed.text}","bytes":'
    )


def _number(number: int) -> str:
    return _NUMBERS[number] if number < _MANY else str(number)


def _quoted(text: str) -> str:
    # ASCII only: a name that is no UTF-8 (surrogates) survives as an escape.
    return json.dumps(str(text))


def _nullable(text: str | None) -> str:
    return "null" if text is None else _quoted(text)


def _head(kind: str, proxy: str, worker: int, run: str) -> str:
    return (
        f'{{"v":{RECORD_VERSION},"kind":"{kind}","proxy":{_quoted(proxy)},"worker":{worker:d},'
        f'"run":{_quoted(run)},"seq":'
    )


_NO_SESSION: Final = (
    '"session":0,"user":"","schema":null,"scope":"","scope_key":"","application":null,"level":"",'
    '"bound_us":null'
)
_NO_STATEMENT: Final = statement_fragment("", "", None, False)
