"""What is to be done next for a read (`routing.request.read`), and what is to be counted."""

from typing import Literal

from protocol.errors import ServerErrorCode
from protocol.gtid import EMPTY, GtidSet
from routing.consistency.decision import Decision, Reason
from routing.consistency.scope import ScopeState
from routing.servers.observations import Observation
from routing.servers.topology import Server
from routing.servers.waits import Wait

Crowded = Literal["waits", "delayed", "refused"]
"""What becomes of a read for which the primary has too much to do."""


class Step:
    """Any of the steps below."""


class Send(Step):
    """Send the statement to a server, with what the decision wants in front of it.

    Where that cannot be done the machine is told why: `absent`, `unfit`.
    """

    def __init__(self, decision: Decision) -> None:
        self.decision = decision


class Ask(Step):
    """Ask the primary what it has, by a question sent from now on.

    `probe_answered` follows, or after `seconds` `primary_silent`.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


class Join(Step):
    """Wait for the end of another read's WAIT: `released`, or after `seconds` `out_of_time`."""

    def __init__(self, wait: Wait, seconds: float) -> None:
        self.wait = wait
        self.seconds = seconds


class Open(Step):
    """Open a connection to a replica; `opened` follows."""

    def __init__(self, server: Server) -> None:
        self.server = server


class Delay(Step):
    """The primary may be given the read only later: after `seconds`, `turn_came`."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


class Refuse(Step):
    """Answer with an error; the read is done."""

    def __init__(self, code: ServerErrorCode, message: str, reason: Reason) -> None:
        self.code = code
        self.message = message
        self.reason = reason


class End(Step):
    """End the client's session because of `cause`: no other server has what it needs."""

    def __init__(self, cause: str) -> None:
        self.cause = cause


class Pass(Step):
    """Let the next part of the answer pass."""


class Known(Step):
    """What the primary has is known: `Read.probe_result` has it. There was nothing else to do."""


class Nothing(Step):
    """There is nothing to do."""


class Note:
    """What is to be counted or logged for one event.

    Attributes:
        left: a server that the read left; None if it left none.
        why: the reason for that.
        crowded: what becomes of it because the primary has too much to do; None if that is not so.
        stale: the guarantee is given up, as the timeout policy says.
        proved: what a WAIT on `left` has proved, although the read went on elsewhere.
        scope: the scope that `lost` is about.
        lost: acknowledged GTIDs that the primary was found not to have.
        observation: what the read relies on, and the routing log does not have yet.
    """

    def __init__(self) -> None:
        self.left: Server | None = None
        self.why: Reason | None = None
        self.crowded: Crowded | None = None
        self.stale = False
        self.proved: GtidSet | None = None
        self.scope: ScopeState | None = None
        self.lost: GtidSet = EMPTY
        self.observation: Observation | None = None
