"""Which tables transactions change, as the simulated proxy learns it from the primary's log.

Each register is a table, `t0` and so on, and there is a view `v` over one of them, which is defined
anew from time to time. That is a transaction, too: one that does more than change rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.gtid import Gtid
from routing.servers.observations import Observation
from routing.servers.transaction_tables import TableName
from routing.session.known_tables import KnownTables
from routing.sql.lexer import MODE_UTF8
from routing.sql.statement import Statement, classify_text
from routing.sql.table_meanings import TableMeanings
from tests.model.servers import VIEW

if TYPE_CHECKING:
    from protocol.gtid import GtidSet
    from tests.model.proxy import Proxy
    from tests.model.servers import Mysql

SCHEMA: Final = "app"
_MOST: Final = 8
READS: Final[dict[int, Statement]] = {
    register: classify_text(f"TABLE t{register}".encode(), MODE_UTF8) for register in range(_MOST)
} | {VIEW: classify_text(b"TABLE v", MODE_UTF8)}
"""What reads a register, or what the view shows."""


def _table(register: int) -> TableName:
    return TableName(SCHEMA, f"t{register}")


class Tables:
    """What the proxy knows of tables.

    Attributes:
        known: what names mean, for all sessions.
    """

    def __init__(self, proxy: Proxy, registers: int) -> None:
        self.known = KnownTables()
        self._proxy = proxy
        self._registers = registers
        self._followed: tuple[Mysql, float] | None = None  # a primary, and when it had started
        self._position = 0

    @property
    def _primary(self) -> Mysql:
        return self._proxy.servers[self._proxy.topology.primary]

    def follow(self) -> bool:
        """Read the next transaction in the log of what the proxy takes for the primary."""
        topology, primary = self._proxy.topology, self._primary
        log = topology.transaction_tables
        for server in topology.replicas:
            source = self._proxy.servers[server].source
            server.sources = None if source is None else frozenset([source.uuid])
            server.filters.applier = ""
        if not primary.up or primary.uuid != topology.primary.uuid:
            log.forget("lost")
            return False
        if topology.current_tables is None or self._followed != (primary, primary.started):
            self._followed = primary, primary.started
            self._position = 0
            log.begin(topology.term, self._applied_everywhere() & primary.executed, 0)
            return True
        while self._position < len(primary.binlog):
            transaction = primary.binlog[self._position]
            self._position += 1
            if not log.read_through.covers(transaction.gtid):
                gtid = _only(transaction.gtid)
                if transaction.register == VIEW:
                    log.add_opaque(gtid)
                else:
                    log.add_rows(gtid, frozenset([_table(transaction.register)]))
                return True
        log.drop(self._applied_everywhere())
        return False

    def _applied_everywhere(self) -> GtidSet:
        common = self._proxy.topology.primary.applied
        for server in self._proxy.topology.replicas:
            common &= server.applied
        return common

    def ask(self) -> bool:
        """Ask the primary what names mean; it shows what is committed in its engine."""
        topology, primary = self._proxy.topology, self._primary
        if not primary.up or primary.uuid != topology.primary.uuid:
            return False
        tables = {(SCHEMA, f"t{register}"): register for register in range(self._registers)}
        tables[SCHEMA, "v"] = primary.register(VIEW, self._registers)
        meanings = TableMeanings(
            {name: frozenset([_table(register)]) for name, register in tables.items()}
        )
        looks = topology.observations.looks
        self.known.take(meanings, topology.primary.applied, looks, topology.term)
        return True

    def look(self) -> bool:
        """Look at what the primary has, and is committing."""
        topology, primary = self._proxy.topology, self._primary
        if not primary.up or primary.uuid != topology.primary.uuid:
            return False
        observations = topology.observations
        observation = Observation(self._proxy.now(), primary.executed)
        shown = primary.executed | primary.owned
        observations.end_look(observations.begin_look(), shown, observation)
        return True


def _only(gtids: GtidSet) -> Gtid:
    """The only one of a set."""
    (tsid,) = gtids.tsids
    ((number, _),) = gtids.intervals(tsid)
    return Gtid(tsid, number)
