"""Clients that write and read counters through a proxy while much else happens.

`TableHistory` lets them work, together with whoever redefines tables and delays replicas, until a
test has seen enough or a read was stale; what is done to the cluster itself goes on beside them.
"""

import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from typing import Final

from routing.consistency.decision import Scope
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.counter_clients import CounterClient, Judge, Kept
from tests.real_mysql.counter_tables import GENERATION, any_query, data_of, quoted_name
from tests.real_mysql.definers import Definer, Delayer
from tests.real_mysql.disturbances import hand_over, promote
from tests.real_mysql.routes import Client
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.server import RealServer
from tests.real_mysql.statements import run
from tests.support.waiting import eventually

PROOFS: Final = ("independent", "known", "waited", "primary")
_STALLED_S: Final = 180
"""An applier that has half of a transaction, whose rest never comes, takes 60 s to stop."""
_COMPARED: Final = 300
_LOST: Final = 20
"""So many writes at least are acknowledged that a new primary does not have."""
_TABLES: Final = (
    "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.COLUMNS"
    " JOIN information_schema.TABLES USING (TABLE_SCHEMA, TABLE_NAME)"
    " WHERE TABLE_SCHEMA IN ('app', 'other') AND TABLE_TYPE = 'BASE TABLE'"
    " AND COLUMN_NAME = 'ident'"
)


def start(
    proxy: StartProxy, module: str, wait_budget: str, workers: int = 1, **options: str | None
) -> RunningProxy:
    """A proxy that asks for names as soon as definitions change; all its workers are up."""
    running = proxy(
        module=f"tests.real_mysql.{module}",
        table_dependencies="on",
        wait_budget=wait_budget,
        monitor_interval="100ms",
        workers=str(workers),
        **options,
    )
    if workers > 1:
        eventually(lambda: running.metric("tidegate_worker_up") == workers)
    return running


def proved(running: RunningProxy, proof: str, **labels: str) -> int:
    """How many reads had this proof."""
    return int(running.metric("tidegate_read_duration_seconds_count", proof=proof, **labels))


class TableHistory:
    """A run of clients, a definer, and whoever delays replicas.

    Args:
        cluster: on which they work.
        running: through which proxy.
        clients: their accounts and scopes.
        seed: of all choices.
        kills: whether replicas are killed and started again; each has a delayer of its own then.
        asked: the scope that clients ask for, whatever they are judged by.
        apart: whether a client reads through another worker than it writes.

    Attributes:
        judge: what clients saw.
        definer: who redefines tables.
        delayers: who delays replicas.
    """

    def __init__(
        self,
        cluster: Cluster,
        running: RunningProxy,
        clients: Sequence[Client],
        seed: int,
        *,
        kills: bool = False,
        asked: Scope | None = None,
        apart: bool = False,
    ) -> None:
        self._cluster = cluster
        self._running = running
        self._seed = seed
        self.judge = Judge()
        self._primary = cluster.primary
        chance = random.Random(seed)
        # A replica that was away may need any binary log.
        pause = chance.choice([2, 6, 12])
        self.definer = Definer(self.judge, cluster.primary, seed, pause, purges=not kills)
        delayed = [[replica] for replica in cluster.replicas] if kills else [cluster.replicas]
        self.delayers = [
            Delayer(self.judge, replicas, seed + 1000 * n, kills=kills)
            for n, replicas in enumerate(delayed)
        ]
        files = cluster.scratch.path
        self._clients = [
            CounterClient(self.judge, running, client, seed * 100 + n, files, asked, apart=apart)
            for n, client in enumerate(clients)
        ]
        self._working: list[Future[None]] = []

    def run(self, *steps: Callable[[], object]) -> Judge:
        """Let all work while one step follows the other, such as ``until`` a condition."""
        workers = [*self._clients, self.definer, *self.delayers]
        with ThreadPoolExecutor(len(workers)) as threads:
            self._working = [threads.submit(worker.run) for worker in workers]
            try:
                for step in steps:
                    step()
            finally:
                self.judge.over.set()
                for thread in self._working:
                    thread.result()
        for delayer in self.delayers:
            delayer.end()
        self._print()
        return self.judge

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition; in vain if a read is stale before, or clients do not get on."""
        judge = self.judge
        seen, moved_at = 0, time.monotonic()
        while not condition() and not judge.stale:
            if any(thread.done() for thread in self._working):
                return
            time.sleep(0.1)
            if judge.tried > seen:
                seen, moved_at = judge.tried, time.monotonic()
            if time.monotonic() > moved_at + _STALLED_S:
                return

    def read_on(self, reads: int) -> None:
        """Wait for so many further reads."""
        wanted = self.judge.reads + reads
        self.until(lambda: self.judge.reads >= wanted)

    def hand_over(self) -> None:
        """The first replica becomes the primary in good order, while clients write."""
        with self._held(self.definer, *self.delayers):
            hand_over(self._cluster)
            new, other = self._cluster.replicas
            self._go_on(new, [self._cluster.primary, other])
            self.definer.move(new, self.definer.state)

    def fail_over(self, unreplicated: int, *, told: bool = True) -> None:
        """The primary is killed, and a replica takes over that lacks its last writes.

        Args:
            unreplicated: so many reads are done while nothing is replicated any more, and at least
                `_LOST` writes are acknowledged.
            told: whether the judge is told of what is lost.
        """
        old, (new, other) = self._cluster.primary, self._cluster.replicas
        self.judge.rare_at = math.inf  # else half of a large transaction is received, mostly
        with self._held(*self.delayers):  # a replica that is started again receives again
            with self._held(self.definer):
                # The new primary has what the other has, and whole definitions.
                other.query("STOP REPLICA IO_THREAD")
                new.wait_for(old.gtid_executed)
                new.query("STOP REPLICA IO_THREAD")
                state = self.definer.state
            written = self.judge.writes.total()
            self.read_on(unreplicated)
            self.until(lambda: self.judge.writes.total() >= written + _LOST)
            with self._held(self.definer):
                old.kill()
                tried = self.judge.tried
                self.until(lambda: self.judge.tried >= tried + 40)
                new.wait_for(str(new.replica_status()["Retrieved_Gtid_Set"]))
                if told:
                    self.judge.acknowledged.lose(*kept(new))
                promote(new, [other])
                self._go_on(new, [other])
                self.definer.move(new, state)
        self.judge.rare_at = 0.0

    @contextmanager
    def _held(self, *workers: Definer | Delayer) -> Iterator[None]:
        """A definer defines nothing meanwhile, replicas of a delayer apply; clients go on."""
        with ExitStack() as stack:
            for worker in workers:
                stack.enter_context(worker.lock)
            yield

    def _go_on(self, primary: RealServer, replicas: Sequence[RealServer]) -> None:
        self._primary = primary
        for n, delayer in enumerate(self.delayers):
            delayer.replicas = replicas[n : n + 1] if len(self.delayers) > 1 else replicas

    def compare(self) -> None:
        """While nobody writes, each query finds through the proxy what it finds at the primary."""
        primary, chance = self._primary, random.Random(self._seed)
        for delayer in self.delayers:
            for replica in delayer.replicas:
                replica.wait_for(primary.gtid_executed)
        with closing(self._running.connect()) as through, closing(primary.connect()) as directly:
            directly.select_db("app")
            for _ in range(_COMPARED):
                query = any_query(chance, str(chance.randrange(10)))
                assert sorted(run(through, query.text)) == sorted(run(directly, query.text)), query

    def _print(self) -> None:
        judge = self.judge
        proofs = {proof: proved(self._running, proof) for proof in PROOFS}
        print(f"\nseed {self._seed}: {judge.reads} reads by {proofs}, {len(judge.stale)} stale")
        print(f"  {judge.moved} of moved tables, {judge.unanswered} in vain")
        print(f"  of what others wrote {dict(judge.of_others)}, {judge.unjudged} not judged")
        print(f"  {judge.acknowledged.lost} values lost, errors {dict(judge.codes)}")
        befell = [(delayer.stopped, delayer.killed) for delayer in self.delayers]
        print(f"  appliers stopped, replicas killed {befell}")
        print(f"  writes {dict(judge.writes)}")
        print(f"  definitions {dict(self.definer.done)}, refused {dict(self.definer.refused)}")


def kept(server: RealServer) -> tuple[Kept, int]:
    """What a server has, and the generation of its views."""
    found: dict[int, dict[int, int]] = {}
    for schema, name in server.query(_TABLES):
        table = quoted_name(f"{schema}.{name}")
        for row, ident, value in server.query(f"SELECT id, ident, v FROM {table}"):  # noqa: S608 - of the test
            data = data_of(int(str(ident)))
            values = found.setdefault(int(str(row)), {})
            values[data] = max(int(str(value)), values.get(data, int(str(value))))
    ident = int(server.value("SELECT MAX(ident) FROM app.vr"))
    return found, ident // GENERATION
