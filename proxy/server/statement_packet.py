"""The proxy's own statements as packets."""

from __future__ import annotations

from typing import Final

from protocol.command import com_query
from protocol.packet import frame

PLAIN: Final = com_query(b"", False)
"""What stands in front of the SQL of a COM_QUERY."""
WITH_ATTRIBUTES: Final = com_query(b"", True)
"""The same where CLIENT_QUERY_ATTRIBUTES was negotiated."""


def statement_packet(sql: bytes, query_attributes: bool) -> bytes:
    """One of the proxy's own statements, framed for a connection."""
    return frame(WITH_ATTRIBUTES + sql if query_attributes else PLAIN + sql, 0)
