"""What the answers to commands are for: entries of a connection's queue, and batches to send."""

from __future__ import annotations

from enum import Enum
from typing import Final, TypeAlias

from protocol.response_stream import PREPARED, RESULTS, SIMPLE
from routing.sql.diagnostics import CONDITIONS, PARTS, ROW_COUNT


class Purpose(Enum):
    """Why a command was sent."""

    FORWARD = "forward"
    """The client's own; the owner is given its answer as it comes."""
    SETUP = "setup"
    """Tells the connection something of the session, or ends a transaction there; must succeed."""
    WAIT = "wait"
    """WAIT_FOR_EXECUTED_GTID_SET; its row says whether the next statement's answer may count."""
    PROBE = "probe"
    """`@@GLOBAL.gtid_executed`, sent before a statement."""
    SHARED_PROBE = "shared probe"
    """The same for all reads that wait for it, whatever the session (`proxy.shared.probe`)."""
    CONFIRM = "confirm"
    """Whether the server still has what it has proved, before a read that relies on it."""
    AUDIT = "audit"
    """The server's own GTID_SUBSET on what the read after it must see."""
    REPLAY_DIAGNOSTICS = "replay diagnostics"
    """Makes a server look as if it had run what another has run; it does not matter if it fails."""
    FOUND_ROWS = "found rows"
    """Asks for FOUND_ROWS(), which a statement of the proxy's own behind it would change."""
    WAIT_FOR_OWNED = "wait for owned"
    """A WAIT on the primary for what it is committing, so that it shows what replicas show."""
    PREPARE_STATEMENT = "prepare statement"
    """A COM_STMT_PREPARE of a statement that the client prepared elsewhere."""
    VIEWS = "views"
    """Which views there are (`proxy.server.view_question`); sent before a statement."""
    RESTORE = "restore"
    """Restores the proxy's settings, which a client's command undid; must succeed."""
    DEFAULTS = "defaults"
    """Asks what a session begins with (`proxy.server.verified_login`,
    `routing.session.defaults`)."""
    ROLES = "roles"
    """Asks the primary which roles are active."""
    SAVE_STATE = "save state"
    """Asks for what a session that gives its connection back carries
    (`proxy.client.sharing.connection_lease`)."""
    SNAPSHOT_BEFORE = "snapshot before"
    """What a server has executed, before a snapshot is taken there."""
    SNAPSHOT = "snapshot"
    """A START TRANSACTION WITH CONSISTENT SNAPSHOT on the primary."""
    SNAPSHOT_AFTER = "snapshot after"
    """What a server has executed and is committing, after a snapshot was taken."""
    ROLLBACK = "rollback"
    """The proxy's own, of a transaction whose snapshots differ."""
    TRACKER_PING = "tracker ping"
    """A COM_PING, whose OK brings what trackers could not tell before
    (`proxy.client.effects.missing_trackers`)."""


class Exchange:
    """A command whose answer is awaited.

    Attributes:
        disturbs: parts of the connection's diagnostics area that it changes, if it is the proxy's.
    """

    __slots__ = ("asks_cursor", "disturbs", "forwarded", "keeps_row", "purpose", "shape")

    def __init__(
        self,
        purpose: Purpose,
        shape: int,
        keeps_row: bool = False,
        asks_cursor: bool = False,
        disturbs: int = PARTS,
    ) -> None:
        self.purpose = purpose
        self.shape = shape
        self.disturbs = 0 if purpose is Purpose.FORWARD else disturbs
        self.asks_cursor = asks_cursor
        self.forwarded = purpose is Purpose.FORWARD
        self.keeps_row = keeps_row or (not self.forwarded and shape == RESULTS)


Batch: TypeAlias = tuple[tuple[Exchange, bytes], ...]
"""Commands for one server, in their order: what each one's answer is for, and its packets."""

FORWARD: Final = tuple(Exchange(Purpose.FORWARD, shape) for shape in range(6))
"""By the shape of the response (`protocol.response_stream`)."""
FORWARD_ROW: Final = Exchange(Purpose.FORWARD, RESULTS, keeps_row=True)
"""Where the answer's one row tells what the statement did."""
FORWARD_CURSOR: Final = Exchange(Purpose.FORWARD, RESULTS, asks_cursor=True)
"""An execution whose rows are to be fetched by later commands."""
SETUP: Final = Exchange(Purpose.SETUP, SIMPLE)
END: Final = Exchange(Purpose.SETUP, SIMPLE, disturbs=CONDITIONS | ROW_COUNT)
"""Ends a transaction: a COMMIT, or SET autocommit=1. FOUND_ROWS() stays."""
WAIT: Final = Exchange(Purpose.WAIT, RESULTS)
PROBE: Final = Exchange(Purpose.PROBE, RESULTS)
SHARED_PROBE: Final = Exchange(Purpose.SHARED_PROBE, RESULTS)
CONFIRM: Final = Exchange(Purpose.CONFIRM, RESULTS)
AUDIT: Final = Exchange(Purpose.AUDIT, RESULTS)
REPLAY_DIAGNOSTICS: Final = Exchange(Purpose.REPLAY_DIAGNOSTICS, RESULTS)
REPLAY_ROW_COUNT: Final = Exchange(Purpose.REPLAY_DIAGNOSTICS, RESULTS, disturbs=ROW_COUNT)
"""A COM_PING, for example."""
REPLAY_PREPARE: Final = Exchange(Purpose.REPLAY_DIAGNOSTICS, PREPARED, disturbs=CONDITIONS)
"""A COM_STMT_PREPARE, of which only the warnings or the error are wanted."""
REPLAY_SETTING: Final = Exchange(
    Purpose.REPLAY_DIAGNOSTICS, RESULTS, disturbs=CONDITIONS | ROW_COUNT
)
FOUND_ROWS: Final = Exchange(Purpose.FOUND_ROWS, RESULTS)
WAIT_FOR_OWNED: Final = Exchange(Purpose.WAIT_FOR_OWNED, RESULTS)
VIEWS: Final = Exchange(Purpose.VIEWS, RESULTS)
PREPARE_STATEMENT: Final = Exchange(Purpose.PREPARE_STATEMENT, PREPARED, disturbs=CONDITIONS)
RESTORE: Final = Exchange(Purpose.RESTORE, SIMPLE, disturbs=CONDITIONS | ROW_COUNT)
DEFAULTS: Final = Exchange(Purpose.DEFAULTS, RESULTS)
ROLES: Final = Exchange(Purpose.ROLES, RESULTS)
SNAPSHOT_BEFORE: Final = Exchange(Purpose.SNAPSHOT_BEFORE, RESULTS)
SNAPSHOT: Final = Exchange(Purpose.SNAPSHOT, SIMPLE)
SNAPSHOT_AFTER: Final = Exchange(Purpose.SNAPSHOT_AFTER, RESULTS)
ROLLBACK: Final = Exchange(Purpose.ROLLBACK, SIMPLE)
TRACKER_PING: Final = Exchange(Purpose.TRACKER_PING, SIMPLE, disturbs=ROW_COUNT)
SAVE_STATE: Final = Exchange(Purpose.SAVE_STATE, RESULTS)
