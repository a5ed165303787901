"""The bytes of the proxy's own answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from protocol.constants import AUTOCOMMIT, IN_TRANS, IN_TRANS_READONLY, NO_BACKSLASH_ESCAPES
from protocol.packet import frame
from protocol.response import OkPacket
from protocol.resultset import ColumnDefinition41, text_resultset

if TYPE_CHECKING:
    from collections.abc import Sequence

    from protocol.constants import Capability
    from routing.transaction.transaction import Transaction

_LASTING: Final = IN_TRANS_READONLY | NO_BACKSLASH_ESCAPES
"""Status flags that last."""


def status(transaction: Transaction) -> int:
    """The server status in the proxy's own answers: clients escape by what it says."""
    of_primary = transaction.status
    flags = IN_TRANS if transaction.is_open else 0
    if transaction.is_uncertain and transaction.autocommit:
        flags = of_primary & IN_TRANS  # few errors begin or end one
    if transaction.autocommit:
        flags |= AUTOCOMMIT
    elif not transaction.status_tells:
        flags |= of_primary & AUTOCOMMIT  # on, by a server's own mistake
    return flags | of_primary & _LASTING


def ok(flags: int, capabilities: Capability, warnings: int = 0) -> bytes:
    """An OK packet, framed; `flags` are the server status."""
    return frame(OkPacket(status=flags, warnings=warnings).serialise(capabilities), 1)


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str | None]],
    flags: int,
    capabilities: Capability,
) -> bytes:
    """A result set of texts, framed; `flags` are the server status."""
    definitions = [
        ColumnDefinition41(
            name=name,
            column_length=4 * max([1, *(len(row[index] or "") for row in rows)]),
        )
        for index, name in enumerate(columns)
    ]
    encoded = [
        [None if value is None else value.encode("utf-8", "surrogateescape") for value in row]
        for row in rows
    ]
    return text_resultset(definitions, encoded, capabilities, flags)
