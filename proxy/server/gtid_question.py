"""What a server has, and what it is committing: the question and the answer."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from protocol.errors import MalformedGtidSetError
from protocol.gtid import GtidSet
from protocol.gtid_owned import parse_owned
from protocol.resultset import parse_text_row

if TYPE_CHECKING:
    from protocol.response_stream import ResponseStream

_log = logging.getLogger(__name__)

PROBE_SQL: Final = (
    b"SELECT CONVERT(@@GLOBAL.gtid_owned USING binary),CONVERT(@@GLOBAL.gtid_executed USING binary)"
    b",CONVERT(@@GLOBAL.gtid_mode USING binary) LIMIT 1"
)
"""In this order: a transaction moves from the first set to the second, so it is never missed. The
sets come unchanged, whatever the session's character_set_results and sql_select_limit are."""


class Answer(NamedTuple):
    """What the primary says of itself.

    Attributes:
        executed: its `gtid_executed`.
        owned: what it is committing; some of it may be visible already.
        names: writes there get a GTID (`gtid_mode = ON`).
    """

    executed: GtidSet
    owned: GtidSet
    names: bool = True


def parse(stream: ResponseStream, near: GtidSet) -> Answer | None:
    """What the answer to `PROBE_SQL` says; None, and a line in the log, if nothing.

    Args:
        stream: the answer.
        near: a set that the server's is probably almost the same as, as in `GtidSet.parse`.

    Raises:
        MalformedPacketError: the row is none.
    """
    if stream.error is not None or stream.row is None:
        return None
    owned, executed, mode = parse_text_row(stream.row, 3)
    if owned is None or executed is None:
        return None
    try:
        return Answer(
            GtidSet.parse(executed, near),
            parse_owned(owned.decode("ascii", "replace")),
            mode == b"ON",
        )
    except MalformedGtidSetError as error:
        _log.warning("a server's GTID sets cannot be read: %s", error)
        return None
