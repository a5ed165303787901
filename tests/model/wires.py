"""What passes between a server and its client: commands, answers, and the connection itself."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from protocol.gtid import EMPTY, GtidSet

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.model.servers import Mysql, Transaction

CommandKind = Literal[
    "identify",
    "track",
    "bend",
    "write",
    "implicit",
    "refused",
    "read",
    "probe",
    "wait",
    "confirm",
    "settle",
]
AnswerKind = Literal["identity", "ok", "error", "rows", "executed", "waited", "confirmed", "lost"]
WAITS: Final = ("wait", "settle")
WRITES: Final = ("write", "implicit", "refused")


@dataclass(frozen=True, slots=True)
class Command:
    """What the proxy sends.

    Attributes:
        kind: `implicit` is a command that commits a write and then fails; `refused` fails without
            a commit.
        register: for a write or read.
        value: for a write.
        tracking: for `track`: the new session_track_gtids.
        gtids: for `wait`; `settle` waits for what is being committed when it begins.
        exact: for `wait`: whether it means the same in a session that is bent.
        budget: for `wait` and `settle`, s.
        proved: for `confirm` and `wait`: the set that the server is asked whether it still has;
            None if it is not asked.
        sent_at: when it was sent, s.
        registers: for a read: how many there are.
    """

    kind: CommandKind
    register: int = 0
    value: int = 0
    tracking: str = ""
    gtids: GtidSet = EMPTY
    exact: bool = True
    budget: float = 0.0
    proved: GtidSet | None = None
    sent_at: float = 0.0
    registers: int = 1


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server sends.

    A read has two answers: `rows` with the value, then `ok` with the tracker, which is made later.

    Attributes:
        kind: `lost` is not sent: it means that the connection broke.
        value: for `rows`: what was read; for `waited`: 0 or 1.
        has: for `waited`: the result of GTID_SUBSET for the set, after the WAIT.
        gtids: for `executed` and `identity`: @@GLOBAL.gtid_executed.
        owned: for `executed` and `identity`: @@GLOBAL.gtid_owned.
        tracker: the set in SESSION_TRACK_GTIDS; None if there is none.
        uuid: for `identity`.
        started: for `identity`, s.
        still: for `confirmed` and `waited`: whether it still has the set; None if not asked.
        binary_log: for `identity`: the number of the newest file of its binary log.
        purged: for `identity`: @@GLOBAL.gtid_purged.
        ordered: for `identity`, `confirmed` and `waited`: replica_preserve_commit_order.
        excused: for `rows`: the read was sent before the proxy had to know that the server was
            changed.
        register: for `rows`: the one that was read.
    """

    kind: AnswerKind
    value: int = 0
    has: bool = False
    gtids: GtidSet = EMPTY
    owned: GtidSet = EMPTY
    tracker: GtidSet | None = None
    uuid: str = ""
    started: float = 0.0
    binary_log: int = 0
    purged: GtidSet = EMPTY
    still: bool | None = None
    ordered: bool = True
    excused: bool = False
    register: int = 0


LOST: Final = Answer("lost")


class Wire:
    """One connection to a server, with what is on its way in both directions."""

    def __init__(self, server: Mysql, receive: Callable[[Answer], None]) -> None:
        self.server = server
        self.receive = receive
        self.to_server: deque[Command] = deque()
        self.to_client: deque[Answer] = deque()
        self.tracking = "OFF"
        self.bent = False  # whether its settings make sets be read as empty ones
        self.own = EMPTY
        self.deadline: float | None = None
        self.awaited = EMPTY
        self.transaction: Transaction | None = None  # the one that is being committed
        self.shown = False  # whether the rows of a read were sent, but not its end
        self.closed = False  # whether the client has closed it
        server.wires.append(self)

    def send(self, *commands: Command) -> None:
        """Send commands, if the server's end is still open."""
        if self in self.server.wires:
            self.to_server.extend(commands)

    def close(self) -> None:
        """Hang up; commands are still executed, unless the server is in a wait (fact 4.1)."""
        self.closed = True
        self.to_client.clear()
        if self.to_server and self.to_server[0].kind in WAITS:
            self.to_server.clear()
        if not self.to_server and self in self.server.wires:
            self.server.wires.remove(self)
        if self in self.server.broken:
            self.server.broken.remove(self)

    def deliver(self) -> None:
        """Let the oldest answer arrive."""
        answer = self.to_client.popleft()
        if self in self.server.broken and not self.to_client:
            self.server.broken.remove(self)
        self.receive(answer)
