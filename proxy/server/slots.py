"""Limits how many connections to each server sessions may have, and orders those that wait.

Theory of operation
===================

A session takes a slot before it gets a connection to a server, and frees it with the connection: so
a server never has more of them than `max-server-connections`. Kept connections
(`proxy.server.pool`) have no slot, once they are clean; they make room for holders of slots.

Where all slots are taken, callers wait for their turn, in the order of arrival. Meanwhile sessions
are to give way: idle ones are asked, the one that has had its connection for longest first; busy
ones check at the end of each command whether one of their connections is wanted
(`proxy.client.sharing.connection_lease`). Each may use its connection for `_TURN_S` first, since a
change of hands costs more than a statement. A busy one may use it for more commands, on whatever
server each of them runs: who writes on the primary and reads on a replica needs both connections.
Between two commands it looks idle, so it is not asked if one has ended since the last look. Clients
that were greeted with a connection, and do not log in, give way, too: they get another one.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias
from weakref import WeakKeyDictionary

from protocol.errors import ServerErrorCode
from protocol.response import ErrPacket
from proxy.server.errors import ServerFullError

if TYPE_CHECKING:
    from proxy.live_config import LiveConfig
    from proxy.observe.metrics import Metrics
    from routing.servers.topology import Server

_TURN_S: Final = 0.01
_LONGEST_TURN_S: Final = 0.1
TURN_COMMANDS: Final = 24
_LOOK_S: Final = 0.005
"""How often idle sessions are asked, while anybody waits."""

_Turn: TypeAlias = "asyncio.Future[Slot | None]"
"""Of a caller that waits: done with a slot, or with None when it has waited for too long."""


class Holder(Protocol):
    """A session with connections, or a client that was greeted with one and has not logged in."""

    def give_way(self, server: Server) -> None:
        """Another session waits for a connection to the server: give one back if possible."""
        ...


class Slot:
    """The right to use one connection.

    Attributes:
        server: which it leads to.
        holder: its user; None during a login, or while the connection is cleaned.
        since: when it began to, monotonic s.
        commands: how many of the holder's have ended since then while others waited, wherever.
        seen: how many those were at the last look for idle sessions.
        giving: it is about to be free.
    """

    __slots__ = (
        *("__weakref__", "_slots", "commands", "giving"),
        *("holder", "seen", "server", "since"),
    )

    def __init__(self, slots: Slots, server: Server) -> None:
        self.server = server
        self.holder: Holder | None = None
        self.since = 0.0
        self.commands = self.seen = 0
        self.giving = False
        self._slots: Slots | None = slots

    def use(self, holder: Holder) -> None:
        """A session has the connection now."""
        if self._slots is not None:
            self.holder = holder
            self._slots.on_use(self)

    def gives(self, *, giving: bool) -> None:
        """The connection is about to be free, or is not after all."""
        if self._slots is not None and giving is not self.giving:
            self.giving = giving
            self._slots.giving[self.server] += 1 if giving else -1

    def keep(self) -> None:
        """The connection is no longer the holder's, or is not to be given back for now."""
        self.holder = None
        if self._slots is not None:
            self._slots.on_disuse(self)

    def free(self) -> None:
        """The connection is closed, or nobody's."""
        self.gives(giving=False)
        slots, self._slots = self._slots, None
        if slots is not None:
            slots.on_free(self)

    def __del__(self) -> None:
        # A cancelled login may leave its connection without an owner.
        if self._slots is not None:
            self._slots.on_abandoned(self.server, giving=self.giving)


class Slots:
    """The slots of one worker.

    Attributes:
        waiting: how many wait for one, whatever the server.
        giving: how many are about to be free, by server.
    """

    def __init__(self, live: LiveConfig, metrics: Metrics, loop: asyncio.AbstractEventLoop) -> None:
        self._live = live
        self._metrics = metrics
        self._loop = loop
        self._taken: defaultdict[Server, int] = defaultdict(int)
        self._used: defaultdict[Server, WeakKeyDictionary[Slot, None]] = defaultdict(
            WeakKeyDictionary
        )
        self._queues: defaultdict[Server, dict[_Turn, None]] = defaultdict(dict)
        self._look: asyncio.TimerHandle | None = None
        self.waiting = 0
        self.giving: defaultdict[Server, int] = defaultdict(int)

    @property
    def _most(self) -> int:
        """How many there may be of each server; 0: any number."""
        return self._live.config.max_server_connections

    def configure(self) -> None:
        """Other options may count: whoever waits may have a slot now."""
        for server, queue in list(self._queues.items()):
            while queue and not self._is_full(server):
                self._taken[server] += 1
                self._next(server)

    def _is_full(self, server: Server) -> bool:
        return bool(self._most) and self._taken[server] >= self._most

    # Who wants one

    def count_of(self, server: Server) -> int:
        """How many there are."""
        return self._taken[server]

    def room(self, server: Server) -> int | None:
        """How many connections there may be besides those with a slot; None: any number."""
        return self._most - self._taken[server] if self._most else None

    def try_take(self, server: Server) -> Slot | None:
        """Take a slot at once; None if there is none: then others may be waiting for one."""
        if self._is_full(server):
            return None
        self._taken[server] += 1
        return Slot(self, server)

    async def take(self, server: Server, at_most: float | None = None) -> Slot:
        """Take a slot, as soon as it is this caller's turn.

        Args:
            server: for a connection to it.
            at_most: how long to wait, s, if that is less than `server-connection-timeout`.

        Raises:
            ServerFullError: it took too long.
        """
        slot = self.try_take(server)
        if slot is not None:
            return slot
        within = self._live.config.server_connection_timeout
        if at_most is not None:
            within = min(at_most, within)
        queue = self._queues[server]
        current: _Turn = self._loop.create_future()
        queue[current] = None
        self._count(server, 1)
        self._look_around()
        timer = self._loop.call_later(within, _take_too_long, current)
        try:
            taken = await current
        except BaseException:
            late = current.result() if current.done() and not current.cancelled() else None
            if late is not None:
                late.free()
            self._metrics.waited_for_connection(server.name, "left")
            raise
        finally:
            timer.cancel()
            queue.pop(current, None)
            self._count(server, -1)
        if taken is None:
            self._metrics.waited_for_connection(server.name, "timeout")
            raise ServerFullError(_full(server, self._most, within))
        self._metrics.waited_for_connection(server.name, "connected")
        return taken

    def _count(self, server: Server, more: int) -> None:
        self.waiting += more
        self._metrics.waits_for_connection(server.name, len(self._queues[server]))

    # Who has one

    def on_use(self, slot: Slot) -> None:
        """A session uses it from now on."""
        slot.gives(giving=False)
        slot.since = self._loop.time()
        slot.commands = slot.seen = 0
        self._used[slot.server][slot] = None

    def on_disuse(self, slot: Slot) -> None:
        """Nobody may give it back now."""
        self._used[slot.server].pop(slot, None)

    def on_free(self, slot: Slot) -> None:
        """A slot is free: it is the next caller's turn."""
        slot.holder = None
        self.on_disuse(slot)
        self._next(slot.server)

    def on_abandoned(self, server: Server, *, giving: bool) -> None:
        """Likewise, for a slot without an owner; called by whichever thread collects garbage."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._next, server, giving)

    def _next(self, server: Server, giving: bool = False) -> None:
        self.giving[server] -= giving
        queue = self._queues[server]
        # Of a limit that was lowered there may be more than it allows.
        while queue and not (self._most and self._taken[server] > self._most):
            current = next(iter(queue))
            del queue[current]
            if not current.done():
                current.set_result(Slot(self, server))
                return
        self._taken[server] -= 1
        if server.left:
            self.forget(server)

    def forget(self, server: Server) -> None:
        """A server is there no more; what is known of it goes with its last connection."""
        if not self._taken[server]:
            for of_servers in (self._taken, self._used, self._queues, self.giving):
                of_servers.pop(server, None)

    def wants(self, slot: Slot) -> bool:
        """Whether the turn of the busy session that has it has ended, and others wait.

        This is asked when a command of the session has ended, of each of its connections.
        """
        slot.commands += 1
        if slot.commands < TURN_COMMANDS and self._loop.time() - slot.since < _LONGEST_TURN_S:
            return False
        return self._is_wanted(slot)

    def _is_wanted(self, slot: Slot) -> bool:
        """Whether others wait, and its holder has had it for long enough if it is idle."""
        if slot.giving or self._loop.time() - slot.since < _TURN_S:
            return False
        return self._lacks(slot.server) > 0

    def _lacks(self, server: Server) -> int:
        """For how many of those that wait nobody is about to give way."""
        return len(self._queues[server]) - self.giving[server]

    def _look_around(self) -> None:
        """Ask idle sessions to give way, now and as long as anybody waits."""
        if self._look is None:
            self.look()
            self._look_again_later()

    def look(self) -> None:
        """Ask idle sessions to give way, where others wait: who had no command since this."""
        for server, queue in list(self._queues.items()):
            if not queue:
                continue
            for slot in list(self._used[server]):
                if self._lacks(server) <= 0:
                    break
                idle, slot.seen = slot.seen == slot.commands, slot.commands
                if idle and slot.holder is not None and self._is_wanted(slot):
                    slot.holder.give_way(server)

    def _look_again_later(self) -> None:
        if self.waiting:
            self._look = self._loop.call_later(_LOOK_S, self._look_again)

    def _look_again(self) -> None:
        self._look = None
        self._look_around()


def _take_too_long(current: _Turn) -> None:
    if not current.done():
        current.set_result(None)


def _full(server: Server, most: int, within: float) -> ErrPacket:
    code = ServerErrorCode.ER_CON_COUNT_ERROR
    return ErrPacket(
        code.code,
        code.sqlstate,
        f"Too many connections (Tidegate: none of the {most} connections to {server.name} became"
        f" free within {within:g} s; see max-server-connections and connection-sharing)",
    )
