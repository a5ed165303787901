"""Clients that write and read counters, and judge each answer at once.

`Acknowledged` knows what every client was told is written. An answer that shows less of what was
acknowledged before its read was sent is stale, whatever else happens meanwhile. Only what was lost
in a failover, which whoever promotes a server tells, is not expected any more.
"""

from __future__ import annotations  # Connection is generic for the type checker only

import contextlib
import itertools
import random
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import mysql.connector
import pymysql
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from routing.consistency.decision import Scope
from tests.real_mysql.counter_tables import (
    DEPENDENT,
    GENERATION,
    MADE_ANEW,
    MOVING,
    PLAIN,
    ROWS,
    Query,
    any_query,
    data_of,
    quoted_name,
)
from tests.real_mysql.routes import USERS, Client, hang_up, worker_of
from tests.real_mysql.running_proxy import RunningProxy

Row = Sequence[object]

_MOVED: Final = {1054, 1137, 1146, 1356, 1412, 1615, 1347, 1288, 1471, 1213, 1205, 1452, 1062}
"""Errors of statements whose tables are renamed, or locked, just now: each server may give them."""
_OUT_OF_BUDGET: Final = 3024
"""How a read is refused where a busy machine does not answer within the wait budget."""
_ACROSS: Final = {1213, 1205}
_READ_ONLY: Final = 1290
"""How a write is refused while there is no primary; the session goes on."""
_NO_PRIMARY: Final = 2003
_LOST: Final = {-1, 0, 1053, 1927, 2006, 2013, 2055}
"""Errors behind which a connection is of no use any more."""
_LAST: Final = "SHOW TIDEGATE LAST"
_SESSION: Final = 60
"""How often a session writes or not, and reads."""
_PAUSE_S: Final = 0.1
"""Behind an error; else clients would do nothing but fail."""

Kept = Mapping[int, Mapping[int, int]]
"""What a new primary has: by row, and by data, the value."""


class Acknowledged:
    """What was acknowledged, row by row.

    Attributes:
        lost: how many acknowledged values a new primary did not have.
        losses: how often writes may have been lost.
    """

    def __init__(self) -> None:
        self._values = itertools.count(1)
        self._written: list[dict[int, int]] = [{} for _ in range(ROWS)]
        self._generations: list[dict[int, int]] = [{} for _ in range(ROWS)]
        self._gone: list[set[int]] = [set() for _ in range(ROWS)]
        self._lock = threading.Lock()
        self._lost_through = 0
        self.lost = 0
        self.losses = 0

    def value(self) -> int:
        """One that is larger than all before."""
        return next(self._values)

    def written(self, row: int, ident: int, value: int) -> None:
        """The row has this value."""
        with self._lock:
            if value <= self._lost_through:
                return  # the primary that acknowledged that may be gone
            self._written[row][data_of(ident)] = value
            kind = _kind(ident)
            if kind is not None:
                generation = ident // GENERATION
                self._generations[row][kind] = max(generation, self._generations[row].get(kind, 0))

    def removes(self, row: int, *idents: int) -> None:
        """The row may be gone from now on."""
        self._gone[row].update(idents)

    def put_back(self, row: int, value: int, *idents: int) -> None:
        """The row is there again, with this value."""
        with self._lock:
            if value > self._lost_through:
                self._gone[row].difference_update(idents)

    def lose(self, kept: Kept, generation: int) -> None:
        """A server is about to become the primary that may lack what was acknowledged.

        Whatever was begun before counts as unclear, should it be acknowledged yet.

        Args:
            kept: what it has.
            generation: that of its views.
        """
        with self._lock:
            self._lost_through = self.value()
            self.losses += 1
            for row, (written, generations) in enumerate(
                zip(self._written, self._generations, strict=True)
            ):
                values = kept.get(row, {})
                for data, value in list(written.items()):
                    if values.get(data, -1) < value:
                        self.lost += 1
                        del written[data]
                self._gone[row].update({DEPENDENT["par"], DEPENDENT["chi"]} - values.keys())
                newest = max((d // GENERATION for d in values if _kind(d) == MADE_ANEW), default=0)
                for kind, known in ((0, generation), (MADE_ANEW, newest)):
                    generations[kind] = min(known, generations.get(kind, 0))

    def expected(self, row: int) -> Expected:
        """What a read must find that is sent from now on."""
        return Expected(dict(self._written[row]), dict(self._generations[row]), self._gone[row])


class Expected:
    """What an answer must not lack."""

    def __init__(
        self,
        written: dict[int, int],
        generations: dict[int, int],
        gone: set[int],
    ) -> None:
        self._written = written
        self._generations = generations
        self._gone = gone
        self._may_be_gone = bool(gone)

    def lacks(self, query: Query, answer: Sequence[Row]) -> str:
        """What an answer lacks; empty if nothing."""
        # Rows that are removed while it is read may be missing, but never show an older value.
        if not answer and not (self._may_be_gone or self._gone or query.unsteady):
            return "no row was found"
        for row in answer:
            for at in range(0, len(row), 2):
                ident, value = row[at], row[at + 1]
                if ident is None or value is None:
                    if not (self._may_be_gone or self._gone or query.unsteady):
                        return f"nothing was found: {row}"
                    continue
                lacking = self._lacking(int(str(ident)), int(str(value)))
                if lacking:
                    return lacking
        return ""

    def _lacking(self, ident: int, value: int) -> str:
        written = self._written.get(data_of(ident))
        if written is not None and value < written:
            return f"{value} was found where {written} was written to table {ident}"
        kind = _kind(ident)
        generation = 0 if kind is None else self._generations.get(kind, 0)
        if ident // GENERATION < generation:
            return f"the name led to {ident} where it had led to generation {generation}"
        return ""


def _kind(ident: int) -> int | None:
    """What has generations: the table that is made anew, or the view that is."""
    if ident % GENERATION == MADE_ANEW:
        return MADE_ANEW
    return 0 if ident >= GENERATION else None


class Judge:
    """Counts what was read, and keeps what was wrong.

    Attributes:
        acknowledged: what reads must find.
        reads: how many were judged.
        of_others: how many of these were of rows that another session wrote, by scope.
        writes: how many were acknowledged, by kind.
        stale: what is wrong with each read that missed something.
        errors, codes: what statements were refused with, but for what is expected of tables that
            move; and the numbers of that.
        moved: reads that were refused since their tables moved.
        unanswered: reads to which the primary did not say in time what they must see.
        tried: reads that were answered or refused.
        unjudged: reads that were answered while acknowledged writes were lost.
        over: whether clients are to stop.
    """

    def __init__(self) -> None:
        self.acknowledged = Acknowledged()
        self.reads = 0
        self.writes: Counter[str] = Counter()
        self.stale: list[str] = []
        self.errors: Counter[str] = Counter()
        self.moved = 0
        self.unanswered = 0
        self.over = threading.Event()
        self.codes: Counter[int] = Counter()
        self.tried = 0
        self.unjudged = 0
        self.of_others: Counter[Scope] = Counter()
        self._clients: list[Client] = []
        self._recent: deque[tuple[Client, str]] = deque(maxlen=8)
        self._entering = threading.Lock()
        self.rare_at = 0.0
        self._chosen = ["c0"]
        self._chosen_until = 0.0

    def enter(self, client: Client) -> Client:
        """The client with a register that nobody else writes, a row of each table."""
        with self._entering:
            assert len(self._clients) < ROWS, f"more sessions than rows: {dict(self.errors)}"
            entered = replace(client, register=len(self._clients))
            self._clients.append(entered)
        return entered

    def any_row(self, client: Client, chance: random.Random) -> tuple[int, str | None]:
        """A row that its scope promises to show, and perhaps a table where it was just written.

        Mostly it is its own row, or else rather a new one.
        """
        turn = chance.random()
        if turn < 0.15:
            recent = [written for written in list(self._recent) if client.owns(written[0])]
            if recent:
                writer, name = chance.choice(recent)
                return writer.register, name
        if client.scope is Scope.CONNECTION or turn > 0.5:
            return client.register, None
        others = [other.register for other in self._clients[-24:] if client.owns(other)]
        return chance.choice(others or [client.register]), None

    def wrote(self, client: Client, name: str) -> None:
        """Its row of this table was written."""
        self._recent.append((client, name))

    def failed(self, error: Exception, text: str) -> int:
        """Count an error; its number."""
        number = number_of(error)
        self.errors[f"{error!r}: {text}"] += 1
        self.codes[number] += 1
        return number

    def chosen(self, chance: random.Random) -> list[str]:
        """The few tables that are written for now, so that reads of others are independent."""
        now = time.monotonic()
        if now > self._chosen_until:
            self._chosen_until = now + chance.uniform(1, 8)
            self._chosen = chance.sample([*PLAIN, "tg", "par", "traced", "pair"], 4)
        return self._chosen


def number_of(error: Exception) -> int:
    """MySQL's number of an error, of whichever driver."""
    number = getattr(error, "errno", None)
    return int(error.args[0] if number is None else number)


class CounterClient:
    """A client with connections of its own to one proxy; it runs in a thread.

    Args:
        judge: of all clients.
        proxy: to which it connects.
        client: its account, and the scope in which its reads see what was written.
        seed: of its choices.
        files: where LOAD DATA finds files.
        asked: the scope that it asks for, if that is another.
        apart: whether another worker serves what it reads than what it writes, if its scope is
            wider than a connection.
    """

    def __init__(
        self,
        judge: Judge,
        proxy: RunningProxy,
        client: Client,
        seed: int,
        files: Path,
        asked: Scope | None = None,
        *,
        apart: bool = False,
    ) -> None:
        self._judge = judge
        self._apart = apart
        self._proxy = proxy
        self._client = client
        self._wide = client.scope is not Scope.CONNECTION
        self._settings = (
            f"SET tidegate_scope = '{asked or client.scope}',"
            f" tidegate_application = '{client.application}'"
        )
        self._chance = random.Random(seed)
        self._files = files
        self.row = 0
        self._known = judge.acknowledged

    def run(self) -> None:
        """Work until all is over."""
        while not self._judge.over.is_set():
            try:
                self._session()
            except (pymysql.err.MySQLError, mysql.connector.Error) as error:
                self._judge.failed(error, "session")
                self._judge.over.wait(_PAUSE_S)

    def _open(self) -> Connection[Cursor]:
        user = self._client.user
        connection = self._proxy.connect(user, USERS[user])
        with connection.cursor() as cursor:
            cursor.execute(self._settings)
        return connection

    def _open_apart(self) -> Connection[Cursor]:
        """A connection that another worker serves than the writer's."""
        writers = worker_of(self._writer)
        while True:
            connection = self._open()
            if worker_of(connection) != writers:
                return connection
            hang_up(connection)

    def _session(self) -> None:
        chance = self._chance
        with contextlib.ExitStack() as stack:
            self._writer = self._reader = self._open()
            stack.callback(hang_up, self._writer)
            self._ansi = False
            self._prepared: list[tuple[Query, object]] = []
            self._binary = None
            if self._wide:
                self._reader = self._open_apart() if self._apart else self._open()
                stack.callback(hang_up, self._reader)
                self._ansi = chance.random() < 0.3
                if self._ansi:
                    self._ask("SET sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES')")
                self._binary = mysql.connector.connect(
                    *(),
                    host="127.0.0.1",
                    port=self._proxy.port,
                    user=self._client.user,
                    password=USERS[self._client.user],
                    database="app",
                    use_pure=True,
                    autocommit=True,
                )
                stack.callback(self._binary.close)
                with contextlib.closing(self._binary.cursor()) as cursor:
                    cursor.execute(self._settings)
            # Not before it is there: who is refused again and again would use up all rows.
            self._client = self._judge.enter(self._client)
            self.row = self._client.register
            for _ in range(_SESSION):
                if self._judge.over.is_set():
                    return
                if chance.random() < 0.3:
                    self._write()
                for _ in range(chance.randint(1, 3)):
                    self._read()

    # --- reads ---------------------------------------------------------------------------------

    def _read(self) -> None:
        chance = self._chance
        row, name = self._judge.any_row(self._client, chance)
        if self._binary is not None and chance.random() < 0.25:
            self._read_prepared(row)
            return
        query = any_query(chance, str(row), name, ansi=self._ansi)
        before: list[str] = []
        text = query.text
        turn = chance.random()
        if turn < 0.08:  # prepared in one schema, and run in another
            before = ["PREPARE p FROM '{}'".format(text.replace("'", "''"))]
            if turn < 0.04:
                before.append("USE other")
            text = "EXECUTE p"
        elif turn < 0.14:
            text = f"SELECT ident, v FROM {chance.choice(['c0', '`c1`', 'vo'])} WHERE id = {row}"  # noqa: S608 - of the test
            query = Query(text, ("other.c0",))
            before = ["USE other"]
        for sql in before:
            try:
                self._ask(sql)
            except pymysql.err.MySQLError as error:
                self._refused(error, query)
                if "USE other" in before:
                    self._ask("USE app")
                return
        self._judged(row, query, lambda: self._ask(text), lambda: self._ask(_LAST))
        if "USE other" in before:
            self._ask("USE app")

    def _read_prepared(self, row: int) -> None:
        chance = self._chance
        if len(self._prepared) < 12:
            assert self._binary is not None
            query = any_query(chance, "?")
            self._prepared.append((query, self._binary.cursor(prepared=True)))
        at = chance.randrange(len(self._prepared))
        query, cursor = self._prepared[at]

        def execute() -> list[Row]:
            cursor.execute(query.text, (row,) * query.text.count("?"))  # type: ignore[attr-defined]
            return list(cursor.fetchall())  # type: ignore[attr-defined]

        def last() -> list[Row]:
            assert self._binary is not None
            with contextlib.closing(self._binary.cursor()) as plain:
                plain.execute(_LAST)
                return list(plain.fetchall())  # type: ignore[arg-type]  # the stubs allow dicts

        if not self._judged(row, query, execute, last) or chance.random() < 0.02:
            del self._prepared[at]
            with contextlib.suppress(mysql.connector.Error):
                cursor.close()  # type: ignore[attr-defined]

    def _judged(
        self,
        row: int,
        query: Query,
        execute: Callable[[], Sequence[Row]],
        last: Callable[[], Sequence[Row]],
    ) -> bool:
        judge = self._judge
        losses = self._known.losses
        expected = self._known.expected(row)
        began = time.time()
        judge.tried += 1
        try:
            answer = execute()
        except (pymysql.err.MySQLError, mysql.connector.Error) as error:
            self._refused(error, query)
            return False
        if self._known.losses != losses:
            judge.unjudged += 1
            return True
        judge.reads += 1
        judge.of_others[self._client.scope] += row != self.row
        lacking = expected.lacks(query, answer)
        if lacking:
            judge.stale.append(
                f"{lacking}: row {row}, scope {self._client.scope}, sent at {began:.3f}:"
                f" {query.text}: {last()}"
            )
        return True

    def _refused(self, error: Exception, query: Query) -> None:
        number = number_of(error)
        if number in _MOVED and query.unsteady:
            self._judge.moved += 1
        elif number == _OUT_OF_BUDGET and "Tidegate: the primary" in str(error):
            self._judge.unanswered += 1
        else:
            self._judge.failed(error, query.text if number != 1213 else "")
            if number in _LOST:
                raise error
            self._judge.over.wait(_PAUSE_S if number == _NO_PRIMARY else 0)

    def _ask(self, sql: str, *, writes: bool = False) -> list[Row]:
        with (self._writer if writes else self._reader).cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    # --- writes --------------------------------------------------------------------------------

    def _write(self) -> None:
        chosen = self._judge.chosen(self._chance)
        usual = [self._plain, self._replace, self._upsert, self._delete_and_insert, self._load]
        if len([name for name in chosen if name in PLAIN]) > 2:
            usual += [self._two, self._joined, self._savepoint]
        if "c0" in chosen or "c1" in chosen:
            usual.append(self._through_view)
        if "tg" in chosen:
            usual += [self._trigger] * 3
        if "par" in chosen:
            usual += [self._cascade, self._cascade_delete] * 2
        if "traced" in chosen:
            usual += [self._traced] * 4
        if "pair" in chosen:
            usual += [self._traced_pair] * 4
        rare = [self._xa, self._xa_one_phase, self._large]
        if self._reader is not self._writer:  # else reads would stay on the primary from then on
            rare += [self._as_statement, self._compressed, self._temporary]
        write = self._chance.choice(usual)
        now = time.monotonic()
        if now > self._judge.rare_at:
            self._judge.rare_at = now + self._chance.uniform(1, 10)
            write = self._chance.choice(rare)
        value = self._known.value()
        try:
            write(value)
        except pymysql.err.MySQLError as error:
            number = number_of(error)
            known = _MOVED if write in (self._traced, self._traced_pair) else _ACROSS
            if number not in known:
                self._judge.failed(error, write.__name__)
            if number == _READ_ONLY:
                self._judge.over.wait(_PAUSE_S)
            elif number not in _MOVED:
                raise
            for sql in (
                ("ROLLBACK", "SET binlog_format = 'ROW'") if write in rare else ("ROLLBACK",)
            ):
                self._ask(sql, writes=True)
        else:
            self._judge.writes[write.__name__.strip("_")] += 1

    def _run(self, *statements: str) -> None:
        for sql in statements:
            self._ask(sql, writes=True)

    def _wrote(self, value: int, *names: str) -> None:
        for name in names:
            self._known.written(self.row, (PLAIN | DEPENDENT)[name], value)
            self._judge.wrote(self._client, name)

    def _update(self, name: str, value: int) -> str:
        return f"UPDATE {quoted_name(name)} SET v = {value} WHERE id = {self.row}"  # noqa: S608 - of the test

    def _insert(self, verb: str, name: str, value: int) -> str:
        ident = (PLAIN | DEPENDENT)[name]
        return (
            f"{verb} INTO {quoted_name(name)} (id, ident, v) VALUES ({self.row}, {ident}, {value})"
        )

    def _pick(self, count: int) -> list[str]:
        chosen = [name for name in self._judge.chosen(self._chance) if name in PLAIN]
        if len(chosen) < count or self._chance.random() < 0.03:
            chosen = sorted(PLAIN)
        return self._chance.sample(chosen, count)

    def _plain(self, value: int) -> None:
        (name,) = self._pick(1)
        self._run(self._update(name, value))
        self._wrote(value, name)

    def _two(self, value: int) -> None:
        names = self._pick(self._chance.randint(2, 3))
        self._run("BEGIN", *[self._update(name, value) for name in names], "COMMIT")
        self._wrote(value, *names)

    def _joined(self, value: int) -> None:
        first, second = self._pick(2)
        self._run(
            f"UPDATE {quoted_name(first)} AS x JOIN {quoted_name(second)} AS y USING (id)"  # noqa: S608 - of the test
            f" SET x.v = {value}, y.v = {value} WHERE x.id = {self.row}"
        )
        self._wrote(value, first, second)

    def _savepoint(self, value: int) -> None:
        first, second, third = self._pick(3)
        self._run(
            *("BEGIN", self._update(first, value), "SAVEPOINT s", self._update(second, value)),
            *("ROLLBACK TO SAVEPOINT s", self._update(third, value), "COMMIT"),
        )
        self._wrote(value, first, third)

    def _replace(self, value: int) -> None:
        (name,) = self._pick(1)
        self._run(self._insert("REPLACE", name, value))
        self._wrote(value, name)

    def _upsert(self, value: int) -> None:
        (name,) = self._pick(1)
        self._run(f"{self._insert('INSERT', name, value)} ON DUPLICATE KEY UPDATE v = {value}")
        self._wrote(value, name)

    def _delete_and_insert(self, value: int) -> None:
        (name,) = self._pick(1)
        delete = f"DELETE FROM {quoted_name(name)} WHERE id = {self.row}"  # noqa: S608 - of the test
        self._run("BEGIN", delete, self._insert("INSERT", name, value), "COMMIT")
        self._wrote(value, name)

    def _load(self, value: int) -> None:
        (name,) = self._pick(1)
        path = self._files / f"{threading.get_ident()}.txt"
        path.write_text(f"{self.row}\t{PLAIN[name]}\t{value}\n")
        self._run(
            f"LOAD DATA INFILE '{path}' REPLACE INTO TABLE {quoted_name(name)} (id, ident, v)"
        )
        self._wrote(value, name)

    def _through_view(self, value: int) -> None:
        view, name = self._chance.choice([("v0", "c0"), ("other.vo", "c1")])
        self._run(self._update(view, value))
        self._wrote(value, name)

    def _trigger(self, value: int) -> None:
        self._run(self._update("tg", value))
        self._wrote(value, "tg", "tlog")

    def _cascade(self, value: int) -> None:
        self._run(self._update("par", value))
        self._wrote(value, "par", "chi")

    def _cascade_delete(self, value: int) -> None:
        known, idents = self._known, (DEPENDENT["par"], DEPENDENT["chi"])
        known.removes(self.row, *idents)
        self._run(f"DELETE FROM par WHERE id = {self.row}")  # noqa: S608 - of the test
        for ident in idents:  # an older value must not be found from now on
            known.written(self.row, ident, value)
        self._read()
        rows = [self._insert("INSERT", name, value) for name in ("par", "chi")]
        self._run("BEGIN", *rows, "COMMIT")
        known.put_back(self.row, value, *idents)

    def _traced(self, value: int) -> None:
        """Write by a name that may mean another table soon; the transaction tells which it is."""
        name = self._chance.choice([*MOVING, "vr", "vr"])
        self._run("BEGIN", self._update(name, value))
        found = self._found(name, value)
        self._run("COMMIT")
        for ident in found:
            self._known.written(self.row, ident, value)

    def _traced_pair(self, value: int) -> None:
        """Write to a table that may be tied to a second one."""
        first, second = self._chance.choice([("dtg", "dtlog"), ("dpar", "dchi")])
        self._run("BEGIN", self._update(first, value))
        found = self._found(first, value) + self._found(second, value)
        self._run("COMMIT")
        for ident in found:
            self._known.written(self.row, ident, value)

    def _found(self, name: str, value: int) -> list[int]:
        sql = f"SELECT ident FROM {name} WHERE id = {self.row} AND v = {value}"  # noqa: S608 - of the test
        return [int(str(ident)) for (ident,) in self._ask(sql, writes=True)]

    def _xa(self, value: int) -> None:
        (name,) = self._pick(1)
        xid = f"'r{self.row}v{value}'"
        self._run(f"XA START {xid}", self._update(name, value), f"XA END {xid}")
        self._run(f"XA PREPARE {xid}", f"XA COMMIT {xid}")
        self._wrote(value, name)

    def _xa_one_phase(self, value: int) -> None:
        (name,) = self._pick(1)
        xid = f"'r{self.row}v{value}'"
        self._run(f"XA START {xid}", self._update(name, value), f"XA END {xid}")
        self._run(f"XA COMMIT {xid} ONE PHASE")
        self._wrote(value, name)

    def _temporary(self, value: int) -> None:
        (name,) = self._pick(1)
        self._run(
            f"CREATE TEMPORARY TABLE passing SELECT {value} AS n",
            f"UPDATE {quoted_name(name)} AS x, passing SET x.v = passing.n WHERE x.id = {self.row}",  # noqa: S608 - of the test
        )
        self._wrote(value, name)
        self._run("DROP TEMPORARY TABLE passing")

    def _large(self, value: int) -> None:
        (name,) = self._pick(1)
        self._run(
            *("BEGIN", self._update(name, value)),
            "INSERT INTO wide (text) SELECT REPEAT('x', 4000) FROM c0 AS a, c0 AS b LIMIT 3000",
            *("COMMIT", "DELETE FROM wide LIMIT 3000"),
        )
        self._wrote(value, name)

    def _as_statement(self, value: int) -> None:
        (name,) = self._pick(1)
        self._run("SET binlog_format = 'STATEMENT'", self._update(name, value))
        self._wrote(value, name)
        self._run("SET binlog_format = 'ROW'")

    def _compressed(self, value: int) -> None:
        names = self._pick(2)
        self._run("SET binlog_transaction_compression = ON", "BEGIN")
        self._run(*[self._update(name, value) for name in names], "COMMIT")
        self._wrote(value, *names)
        self._run("SET binlog_transaction_compression = OFF")
