"""A WAIT on the primary for all that it has begun to commit: then it shows what replicas show."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from protocol.constants import TEXT_ZERO
from protocol.gtid import EMPTY, GtidSet
from proxy.client.statements.server_error import error_of
from proxy.client.statements.time_limit import hint_ms
from proxy.server.exchange import WAIT_FOR_OWNED
from proxy.server.statement_packet import statement_packet

if TYPE_CHECKING:
    from protocol.response_stream import ResponseStream
    from proxy.server.exchange import Batch

_log = logging.getLogger(__name__)

_SQL: Final = b"SELECT /*+ MAX_EXECUTION_TIME(%d) */ WAIT_FOR_EXECUTED_GTID_SET(%b,%b) LIMIT 1"
_OWNED: Final = (
    b"REGEXP_REPLACE(REGEXP_REPLACE(@@GLOBAL.gtid_owned,"
    b"_latin1'#[0-9]+?(?=[0-9a-f]{8}-)',_latin1','),_latin1'#[0-9]+',_latin1'')"
)


def wait_for_owned(budget: float, query_attributes: bool, seen: GtidSet = EMPTY) -> Batch:
    """A WAIT, on the primary, for all that it has begun to commit.

    Two replacements make a set of `gtid_owned` (`protocol.gtid_owned` has its form).

    Args:
        budget: how long it may take, s.
        query_attributes: as the connection has it.
        seen: what it is to wait for as well.
    """
    seconds = max(budget, 0.001)
    gtids = _OWNED
    if seen:
        gtids = b"CONCAT_WS(_latin1',',_latin1'%b',%b)" % (seen.text.encode("ascii"), _OWNED)
    sql = _SQL % (hint_ms(seconds), gtids, f"{seconds:.3f}".encode("ascii"))
    return ((WAIT_FOR_OWNED, statement_packet(sql, query_attributes)),)


def shows_all(stream: ResponseStream) -> bool:
    """Whether the primary has finished what it was committing."""
    if stream.error is None and stream.rows == 1 and stream.row == TEXT_ZERO:
        return True
    _log.warning(
        "the primary has not finished what it was committing: %s",
        error_of(stream, "the wait budget ran out"),
    )
    return False
