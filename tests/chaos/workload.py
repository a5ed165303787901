"""The clients at work, in threads, trial after trial; their sessions live as long as they can.

Each thread writes a register of its own and reads everybody's. Some others write at
the primary directly. All stand still between two trials.
"""

import random
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import TypeVar

from routing.consistency.adjustment import read_level
from tests.chaos.clients import Accounts, Client, Habit
from tests.chaos.cluster import ChaosCluster
from tests.chaos.links import CLIENT_TIMEOUT_S, FAILURES, Link, LoginError, PyMySQLLink, code
from tests.chaos.sessions import (
    TABLES,
    PairSession,
    Pool,
    PooledSession,
    Scopes,
    Session,
    write_register,
)
from tests.chaos.trial import NS, Operation, Trial
from tests.real_mysql.template import APP_USER
from tests.support.history import Read, Write

READS_PER_WRITE = (1, 2, 6, 12)
PAUSE_S = 0.3
"""Longest rest between two operations of a client."""
WRITES = 0.6
"""Of the times that a client does something, in so many it writes."""
DIRECT_WRITERS = 2
_STILL_S = 2 * CLIENT_TIMEOUT_S
_AGAIN_S = 0.1
_MAKE = "INSERT INTO app.registers{} VALUES {}"

_T = TypeVar("_T")


class Workload:
    """Clients of one proxy.

    Attributes:
        failures: exceptions that are the campaign's own fault.
    """

    def __init__(
        self,
        cluster: ChaosCluster,
        port: int,
        clients: list[Client],
        accounts: Accounts,
        chance: random.Random,
    ) -> None:
        self._cluster = cluster
        self._port = port
        self._clients = clients
        self._accounts = accounts
        self._pools = {user: Pool(port, accounts, user) for user in accounts.passwords}
        self._values = count(1)
        self._writers = range(len(clients), len(clients) + DIRECT_WRITERS)
        self._trial: Trial | None = None
        self._working = 0
        self._turns = dict.fromkeys(clients, 0)
        self._moved = threading.Condition()
        self._over = False
        self.failures: list[BaseException] = []
        self._threads: list[threading.Thread] = []
        for client in clients:
            self._start(self._live, client, random.Random(chance.random()))
        for writer in self._writers:
            self._start(self._write_only, writer, random.Random(chance.random()))

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        def run() -> None:
            try:
                target(*arguments)
            except BaseException as error:  # the campaign shows it
                self.failures.append(error)

        thread = threading.Thread(target=run, name=f"{target.__name__} {arguments[0]}", daemon=True)
        self._threads.append(thread)
        thread.start()

    # --- from one trial to the next ------------------------------------------------------------

    def begin(self, trial: Trial) -> None:
        """Make the trial's registers and let the clients work on them."""
        primary = self._cluster.primary
        for table in range(TABLES):
            registers = [trial.register(n) for n in range(self._writers.stop)]
            rows = ",".join(
                f"({register}, 0)" for register in registers if register % TABLES == table
            )
            primary.query(_MAKE.format(table, rows))
        self._cluster.wait_caught_up()
        for pool in self._pools.values():
            pool.close()  # its idle connections may have been lost unnoticed
        with self._moved:
            self._trial = trial
            self._moved.notify_all()

    def wait_for_everybody(self, timeout: float) -> list[Client]:
        """Let each client write and read with success; those that could not in time."""
        with self._moved:
            before = dict(self._turns)

            def idle() -> list[Client]:
                return [client for client in self._clients if self._turns[client] == before[client]]

            self._moved.wait_for(lambda: not idle(), timeout)
            return idle()

    def pause(self) -> None:
        """Let the clients finish what they do, and stand still.

        Raises:
            TimeoutError: somebody does not finish.
        """
        deadline = time.monotonic() + _STILL_S
        with self._moved:
            self._trial = None
            while self._working and time.monotonic() < deadline:
                self._moved.wait(1)
            if self._working:
                raise TimeoutError(f"{self._working} clients did not end their statement")

    def close(self) -> None:
        """End the clients and their connections."""
        with self._moved:
            self._over = True
            self._moved.notify_all()
        for thread in self._threads:
            thread.join(_STILL_S)
        for pool in self._pools.values():
            pool.close()

    def _enter(self) -> Trial | None:
        """Wait for a trial, if there is none; None when all is over."""
        with self._moved:
            while self._trial is None and not self._over:
                self._moved.wait(1)
            if self._over:
                return None
            self._working += 1
            return self._trial

    def _leave(self) -> None:
        with self._moved:
            self._working -= 1
            self._moved.notify_all()

    # --- what clients do -----------------------------------------------------------------------

    def _live(self, client: Client, chance: random.Random) -> None:
        """Use one session after the other; each ends with its first error."""
        session: Session | None = None
        names = count(1)
        while (trial := self._enter()) is not None:
            failed = False
            try:
                if session is None:
                    name = f"client {client.number}.{next(names)}"
                    opening = partial(self._open, client, name)
                    session = self._timed(trial, client, "login", opening)
                writes = chance.random() < WRITES and trial.begin_write()
                if writes:
                    try:
                        self._write(trial, client, session, chance)
                    finally:
                        trial.end_write()
                self._reads(trial, client, session, chance)
                # Else a connection that only writes may have been lost, and nobody has noticed.
                self._turns[client] += writes
            except FAILURES:
                failed = True
            finally:
                self._leave()
            if failed and session is not None:
                session.close()
                session = None
            time.sleep(_AGAIN_S if failed else chance.uniform(0, PAUSE_S))
        if session is not None:
            session.close()

    def _open(self, client: Client, name: str) -> Session:
        if client.habit is Habit.POOLED:
            return PooledSession(self._pools[client.user], client)
        return PairSession(self._port, self._accounts, client, name)

    def _timed(self, trial: Trial, who: Client | str, operation: str, act: Callable[[], _T]) -> _T:
        invoked = trial.stamps()
        outcome, message = "ok", ""
        try:
            return act()
        except FAILURES as error:
            outcome, message = code(error), str(error)
            operation = "login" if isinstance(error, LoginError) else operation
            raise
        finally:
            scope = who.wide_scope if isinstance(who, Client) else None
            ended = trial.stamps()
            trial.lasted(Operation(str(who), operation, invoked, ended, outcome, scope, message))

    def _write(self, trial: Trial, client: Client, session: Session, chance: random.Random) -> None:
        in_transaction = chance.random() < 0.25
        self._write_value(
            trial,
            client,
            client.number,
            lambda register, value: session.write(register, value, in_transaction=in_transaction),
        )

    def _write_value(
        self,
        trial: Trial,
        who: Client | str,
        number: int,
        send: Callable[[int, int], Scopes],
    ) -> None:
        register, value = trial.register(number), next(self._values)
        invoked = trial.stamps()
        acknowledged: int | None = None
        scopes: Scopes = frozenset()
        try:
            scopes = self._timed(trial, who, "write", lambda: send(register, value))
            acknowledged = trial.stamps()
        finally:
            trial.did(Write(str(who), scopes, register, value, invoked, acknowledged))

    def _reads(self, trial: Trial, client: Client, session: Session, chance: random.Random) -> None:
        peers = [other.number for other in self._clients if client.owns(other)]
        everybody = range(self._writers.stop)
        shared = self._timed(trial, client, "transaction", session.begin_snapshot)
        first: int | None = None
        for _ in range(chance.choice(READS_PER_WRITE)):
            number = chance.choice(chance.choice([[client.number], peers, everybody]))
            register = trial.register(number)
            invoked = self._read(trial, client, session, register, shared=shared, since=first)
            first = invoked if shared else None
            if not shared:
                time.sleep(chance.uniform(0, PAUSE_S / 4))
        self._timed(trial, client, "transaction", session.end_snapshot)

    def _read(
        self,
        trial: Trial,
        client: Client,
        session: Session,
        register: int,
        *,
        shared: bool,
        since: int | None,
    ) -> int:
        """Read, and tell when that began.

        Args:
            trial: of which the register is.
            client: who reads.
            session: through which.
            register: which.
            shared: it is in a transaction.
            since: when the first read of that transaction began; None of the first itself.
        """
        level, staleness = read_level(client.consistency)
        invoked = since or trial.stamps()
        operation = "transaction" if shared else "read"
        value, scopes = self._timed(trial, client, operation, lambda: session.read(register))
        scope = next(key for key in scopes if key[0] is client.scope)
        bound = round((staleness or 0) * NS)
        returned = trial.stamps()
        trial.did(
            Read(str(client), scope, level, register, value, invoked, returned, bound, scopes)
        )
        return invoked

    def _write_only(self, number: int, chance: random.Random) -> None:
        """Write at the primary itself, whichever that is."""
        link: Link | None = None
        port = 0
        who = f"writer {number}"
        while (trial := self._enter()) is not None:
            try:
                if link is None or port != self._cluster.primary.port:
                    if link is not None:
                        link.close()
                    port = self._cluster.primary.port
                    link = PyMySQLLink(port, APP_USER, self._accounts.passwords[APP_USER])
                    continue  # the login may have lasted, and the primary may be another one now
                self._write_value(trial, who, number, _through(link))
            except FAILURES:
                if link is not None:
                    link.close()
                link = None
            finally:
                self._leave()
            time.sleep(chance.uniform(0, PAUSE_S))
        if link is not None:
            link.close()


def _through(link: Link) -> Callable[[int, int], Scopes]:
    """Writes on a connection that is no proxy's, so that they are in no scope."""

    def send(register: int, value: int) -> Scopes:
        write_register(link, register, value)
        return frozenset()

    return send
