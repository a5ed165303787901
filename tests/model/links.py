"""What the simulated proxy receives from clients and replies to them, and its links to servers."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from protocol.gtid import EMPTY, GtidSet
from routing.servers.topology import Role
from tests.model.wires import WRITES, Answer, Command, CommandKind, Wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from routing.consistency.decision import Decision
    from routing.consistency.rules import Rules
    from routing.consistency.scope import ScopeState
    from routing.servers.topology import Server
    from tests.model.servers import Mysql

Purpose = Literal[
    *("identify", "compare", "track", "reset", "bend"),
    *("forward", "probe", "gather", "wait", "confirm", "settle"),
]
ReplyKind = Literal["ok", "rows", "error", "told", "unsettled", "lost"]


@dataclass(frozen=True, slots=True)
class Reply:
    """What a client receives.

    Attributes:
        kind: `rows` is part of an answer, the others end it. `told` is the error that tells of lost
            writes, `unsettled` the error if the primary does not show what was seen, `error` any
            other error, `lost` the end of the connection.
        value: what was read.
        stale: the guarantee was given up by the timeout policy, or the server had just been
            replaced by another one.
        refused: the error came from the proxy: the statement did not run.
        register: the one that was read.
    """

    kind: ReplyKind
    value: int = 0
    stale: bool = False
    refused: bool = False
    register: int = 0


@dataclass(slots=True, eq=False)
class Request:
    """A client's statement, and what becomes of it."""

    kind: CommandKind | Literal["reset", "set"]
    register: int = 0
    value: int = 0
    rules: Rules | None = None  # the statement's own; for `set`: the session's from now on
    bends: bool = False  # for `set`: it changes settings on which proxy statements may depend
    arrived: float = 0.0
    scope: ScopeState | None = None  # the scope in which it reads
    decision: Decision | None = None
    observed: GtidSet = EMPTY
    started: bool = False  # rows have been passed on
    stale: bool = False
    sent_at: float = 0.0

    @property
    def may_write(self) -> bool:
        """Whether it may change data."""
        return self.kind in WRITES


class Link:
    """The proxy's end of a connection to a server."""

    def __init__(
        self, server: Server, mysql: Mysql, answer: Callable[[Link, Answer], None]
    ) -> None:
        self.server = server
        self.wire = Wire(mysql, self._receive)
        self.epoch = -1
        self.tracking = "OFF"
        self.bent = False
        self.lost = False
        self.purposes: deque[Purpose] = deque()
        self._trackings: deque[str] = deque()
        self.applied_before = EMPTY
        self.epoch_before = 0
        self.asked_at = 0.0
        self.confirms = False
        self._answer = answer

    def _receive(self, answer: Answer) -> None:
        self._answer(self, answer)

    @property
    def busy(self) -> bool:
        """Whether the server has not answered all commands yet."""
        return bool(self.purposes)

    @property
    def tracks_all(self) -> bool:
        """Whether each answer brings the server's whole set."""
        return self.tracking == "ALL_GTIDS"

    def send(self, purpose: Purpose, command: Command) -> None:
        """Send a command, and remember what its answer is for."""
        self.purposes.append(purpose)
        self.wire.send(command)

    def track(self, tracking: str, purpose: Purpose = "track") -> None:
        """Set session_track_gtids."""
        self._trackings.append(tracking)
        self.send(purpose, Command("track", tracking=tracking))

    def tracked(self) -> None:
        """The server has set session_track_gtids; it holds for all further answers."""
        self.tracking = self._trackings.popleft()

    def identify(self, tracking: str, now: float) -> None:
        """Ask for the server's identity, and set what is tracked."""
        self.track(tracking)
        self.ask("identify", now)

    def ask(self, purpose: Purpose, now: float) -> None:
        """Ask for the server's identity and what it has."""
        self.applied_before = self.server.applied
        self.epoch_before = self.server.epoch
        self.asked_at = now
        self.confirms = self.server.role is Role.REPLICA and self.server.is_doubtful(now)
        if self.confirms:
            self.server.asks(now)
        self.send(purpose, Command("identify"))

    def identified(self, answer: Answer, slack: float) -> None:
        """Take the answer; the server's start is within `slack` seconds of what it says."""
        started = (answer.started - slack, answer.started + slack)
        uuid, executed = answer.uuid, answer.gtids
        before, epoch = self.applied_before, self.epoch_before
        at = self.asked_at
        self.epoch = self.server.observe(uuid, started, executed, before, 0.0, epoch, at)
        if self.confirms:
            self.server.add_confirmation(self.epoch, self.asked_at)

    def close(self) -> None:
        """Hang up."""
        self.lost = True
        self.wire.close()
