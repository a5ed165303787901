"""Which views there are, and what they show, as the accounts of one worker see them.

The server is asked over the sessions' own connections to the primary: at an account's first login,
and again in front of a statement there when a view may have changed or the answer has grown old
(`proxy.client.views`). Until it is known which views there are, whatever reads from a table may
call anything, and runs on the primary.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from protocol.errors import ProtocolError
from proxy.channel import ChannelClosedError
from proxy.server import view_question
from proxy.server.connection_stage import LENT
from proxy.server.errors import ServerRefusedError
from proxy.server.query import end_transaction, query
from routing.servers.topology import Role
from routing.session.known_tables import KnownTables
from routing.sql.catalogue import Catalogue, CatalogueError, Definition, read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from protocol.gtid import GtidSet
    from protocol.response_stream import ResponseStream
    from proxy.live_config import LiveConfig
    from proxy.observe.metrics import Metrics
    from proxy.server.connection import ServerConnection
    from proxy.server.view_question import Answer
    from proxy.tasks import Start
    from routing.servers.topology import Topology

_log = logging.getLogger(__name__)

_MOST_ACCOUNTS: Final = 4096
_MOST_DEFINITIONS: Final = 20_000
_MOST_DEFINITION_BYTES: Final = 16 << 20
"""Of the texts whose meaning is remembered."""
_TURN_S = 0.001  # not Final, which would be compiled in: tests shorten it
"""How long view definitions are processed before other work gets its turn."""
_RETRY_S = 1.0  # likewise
"""How long nobody asks again after an unusable answer."""
_RENEW_S = 5.0  # likewise
"""How long nobody asks again for tables, however often definitions change."""


class Account:
    """What is known of the views of one account with its active roles.

    Attributes:
        era: the `Catalogues.era` in which the primary was asked for its catalogue.
        aged: that was `view-age` ago.
        catalogue: the last one.
        digest: of the answer that it was made from.
        asker: the connection that asks.
        asked_in: the `Catalogues.era` in which it was asked.
        retry_at: when it may be asked again, monotonic s.
        names_only: its definitions are too long to be sent.
        tables: what names of tables mean to it.
        executed: what the primary is known to have had before it was asked; None if it was not the
            primary that was asked, or nobody wants to know.
        term: the primary's term at that time.
        renew_at: when it may be asked again for tables, monotonic s.
        plain_in: the `Catalogues.era` in which each statement is known to be what it looks like,
            whatever views it names.
    """

    def __init__(self) -> None:
        self.era: object | None = None
        self.aged = False
        self.catalogue = Catalogue({})
        self.digest = b""
        self.asker: ServerConnection | None = None
        self.asked_in: object | None = None
        self.retry_at = 0.0
        self.names_only = False
        self.plain_in: object | None = None
        self.tables = KnownTables()
        self.executed: GtidSet | None = None
        self.term = 0
        self.renew_at = 0.0

    @property
    def asking(self) -> bool:
        """Whether an answer is awaited."""
        return self.asker is not None and not self.asker.lost

    def ask(
        self, connection: ServerConnection, era: object, executed: GtidSet | None, term: int
    ) -> bytes:
        """The question, for this connection; the last two as of the attributes."""
        self.asker = connection
        self.asked_in = era
        self.executed = executed
        self.term = term
        if self.names_only:
            return view_question.NAMES_QUESTION
        return view_question.QUESTION if self.executed is None else view_question.TABLES_QUESTION

    def learnt(self, catalogue: Catalogue, reading: Reading) -> None:
        """Take a catalogue."""
        self.catalogue = catalogue = catalogue.following(self.catalogue)
        self.digest = reading.digest
        self.era = reading.era
        self.aged = False
        self.plain_in = None if catalogue.names else reading.era
        self.tables.take(catalogue.tables, reading.executed, reading.look, reading.term)

    def expire(self) -> None:
        """The primary is to be asked again; its last answer counts for a while."""
        self.aged = True
        self.plain_in = None


class Reading:
    """An answer that is being read.

    Attributes:
        era: the `Catalogues.era` in which it was asked for.
        digest: of it.
        steps: the steps that make a catalogue from it.
        executed, term: as of the account that has asked.
        look: how many looks at the primary had begun when it answered.
    """

    def __init__(
        self, account: Account, digest: bytes, look: int, steps: Iterator[Catalogue | None]
    ) -> None:
        self.look = look
        self.era = account.asked_in
        self.executed = account.executed
        self.term = account.term
        self.digest = digest
        self.steps = steps


class Catalogues:
    """The catalogues of all accounts of a worker.

    Attributes:
        era: a new object whenever a view may have changed, or become visible.
        off: views are not looked at.
    """

    def __init__(
        self,
        live: LiveConfig,
        metrics: Metrics,
        start: Start,
        loop: asyncio.AbstractEventLoop,
        topology: Topology,
    ) -> None:
        self._topology = topology
        self._live = live
        self._metrics = metrics
        self._start = start
        self._now: Callable[[], float] = loop.time
        self._call_later = loop.call_later
        self.off = False
        self._accounts: OrderedDict[tuple[str, str], Account] = OrderedDict()
        self._definitions: dict[bytes, Definition] = {}
        self._definition_bytes = 0
        self.era = object()
        self.configure()

    def configure(self) -> None:
        """Other options may count."""
        config = self._live.config
        self.off = config.view_age == 0 or not config.may_have_replicas

    def of(self, user: str, roles: str) -> Account:
        """The account's with these roles (`Session.seeing_roles`)."""
        account = self._accounts.setdefault((user, roles), Account())
        self._accounts.move_to_end((user, roles))
        if len(self._accounts) > _MOST_ACCOUNTS:
            self._accounts.popitem(last=False)
        return account

    def forget(self) -> None:
        """A view may have changed, or become visible."""
        self.era = object()

    def ask(self, account: Account, connection: ServerConnection, *, anew: bool) -> bytes:
        """The question, for a connection; `anew` if no older snapshot may answer it."""
        topology = self._topology
        server = connection.server
        executed: GtidSet | None = None
        present = server is topology.primary and connection.epoch == server.epoch
        if topology.current_tables is not None and present and anew:
            executed = server.applied
        return account.ask(connection, self.era, executed, topology.term)

    def renew(self, account: Account) -> None:
        """What names of tables mean may have changed: ask again, but not all the time."""
        now = self._now()
        account.tables.outdated = False
        if now >= account.renew_at:
            account.renew_at = now + _RENEW_S
            account.expire()

    async def learn(self, connection: ServerConnection, user: str) -> None:
        """Ask over a connection that has just logged in, if nobody has asked yet.

        Where it was lent, that is left to the session's first statement.
        """
        if connection.stage == LENT:
            return
        account = self.of(user, connection.identity.roles)
        if self.off or account.era is self.era or account.asking:
            return
        sql = self.ask(account, connection, anew=True)
        try:
            row = await query(connection, sql)
            await query(connection, view_question.AFTER)
            await end_transaction(connection)  # whose snapshot the session's reads would see
            reading = self._reading(account, view_question.read(row))
            if reading is not None:
                await self._read(account, reading)
            if connection.server.role is Role.REPLICA:
                account.expire()  # the primary, which is gone, may have more by now
        except (ServerRefusedError, ChannelClosedError, ProtocolError) as error:
            self._on_failure(account, str(error))
        except BaseException:
            connection.abort()
            raise
        finally:
            if account.asker is connection:
                account.asker = None

    def on_answer(self, account: Account, stream: ResponseStream) -> None:
        """The primary answered the question in front of a statement."""
        reading = self._reading(account, view_question.parse(stream))
        if reading is not None and not self._step(account, reading):
            self._start(self._read(account, reading), "read views")

    def _reading(self, account: Account, answer: Answer | None) -> Reading | None:
        """Begin to read an answer; None if it is unusable."""
        self._metrics.views_asked()
        if answer is None:
            self._on_failure(account, "the question was refused, or its answer cannot be read")
            return None
        if not answer.whole:
            self._on_failure(
                account, "their definitions are too long, and count as calling functions"
            )
            account.names_only = True
            account.retry_at = 0.0
            return None
        hasher = blake2b(answer.views or b"", digest_size=16)
        hasher.update(answer.usages or b"")
        hasher.update(answer.tables or b"")
        hasher.update(answer.foreign_keys or b"")
        digest = hasher.digest()
        look = self._topology.observations.looks
        for other in (account, *self._accounts.values()):
            if digest == other.digest:  # accounts with the same rights have one catalogue
                return Reading(account, digest, look, iter((other.catalogue,)))
        tables, foreign_keys = answer.tables, answer.foreign_keys
        steps = read(answer.views, answer.usages, self._define, tables, foreign_keys)
        return Reading(account, digest, look, steps)

    async def _read(self, account: Account, reading: Reading) -> None:
        while not self._step(account, reading):  # noqa: ASYNC110 lets others have their turn
            await asyncio.sleep(0)

    def _step(self, account: Account, reading: Reading) -> bool:
        """Read on for a while; whether all has been read."""
        until = time.perf_counter() + _TURN_S
        try:
            for catalogue in reading.steps:
                if catalogue is not None:
                    account.asker = None
                    if reading.era is self.era:
                        account.learnt(catalogue, reading)
                        self._grow_old(account)
                    return True
                if time.perf_counter() > until:
                    return False
        except CatalogueError as error:
            self._on_failure(account, str(error))
        return True

    def _grow_old(self, account: Account) -> None:
        """Have the primary asked again after `view-age`, and drop the answer after twice that."""
        era = account.era
        catalogue = account.catalogue
        age = self._live.config.view_age

        def end() -> None:
            if account.aged and account.era is era and account.catalogue is catalogue:
                account.era = None

        def renew() -> None:
            if account.era is era and account.catalogue is catalogue:
                account.expire()
                self._call_later(age, end)

        self._call_later(age, renew)

    def _define(self, text: bytes) -> Definition:
        """What a definition shows; those of all accounts are remembered."""
        key = blake2b(text, digest_size=16).digest()
        definition = self._definitions.get(key)
        if definition is None:
            definition = Definition(text)
            self._definition_bytes += len(text)
            if (
                len(self._definitions) >= _MOST_DEFINITIONS
                or self._definition_bytes > _MOST_DEFINITION_BYTES
            ):
                self._definitions.clear()
                self._definition_bytes = len(text)
            self._definitions[key] = definition
        return definition

    def _on_failure(self, account: Account, cause: str) -> None:
        account.asker = None
        account.retry_at = self._now() + _RETRY_S
        _log.warning("the views of the primary are not known, and reads run there: %s", cause)
