"""Asks the primary which views the session's account sees, in front of a statement.

`proxy.server.view_question` has the question, which is also asked at a login, and how its answer is
read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.client.statements.transaction import ROLL_BACK
from proxy.server.exchange import REPLAY_DIAGNOSTICS, REPLAY_SETTING, VIEWS
from proxy.server.statement_packet import statement_packet
from proxy.server.view_question import AFTER

if TYPE_CHECKING:
    from proxy.server.exchange import Batch


def ask_views(question: bytes, query_attributes: bool, *, opens: bool) -> Batch:
    """One of the two questions, and what has to stand behind it.

    `opens`: it reads tables, so it opens a transaction, of which the client must not see anything.
    """
    batch: Batch = (
        (VIEWS, statement_packet(question, query_attributes)),
        (REPLAY_DIAGNOSTICS, statement_packet(AFTER, query_attributes)),
    )
    if opens:
        batch += ((REPLAY_SETTING, statement_packet(ROLL_BACK, query_attributes)),)
    return batch
