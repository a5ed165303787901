"""Restores the settings of the primary's connection that the proxy needs (`PrimarySettings`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.client.statements.server_error import error_of
from proxy.server.exchange import REPLAY_SETTING, RESTORE
from proxy.server.settings import primary_settings
from proxy.server.statement_packet import statement_packet
from routing.session.variables import is_wide

if TYPE_CHECKING:
    from protocol.response_stream import ResponseStream
    from proxy.server.connection import ServerConnection
    from proxy.server.exchange import Batch
    from routing.session.session import Session


def restore(primary: ServerConnection, state: Session, tracking: str) -> Batch:
    """The SET; `tracking` is the session_track_gtids to be set, or empty to leave it as it is."""
    sql = primary_settings(
        primary.max_packet,
        tracking,
        state.trackers.shown_variables,
        wide=is_wide(state.variables.get("character_set_filesystem", "")),
    )
    return ((RESTORE, statement_packet(sql, primary.query_attributes)),)


def show_client_settings(state: Session, *, gtids: bool, query_attributes: bool) -> Batch:
    """Lets the client see its own settings of trackers, in front of what shows them.

    `gtids`: also its session_track_gtids, which cannot be changed in a transaction.
    """
    sql = f"SET SESSION {state.trackers.settings(gtids=gtids)}".encode()
    return ((REPLAY_SETTING, statement_packet(sql, query_attributes)),)


def refusal(stream: ResponseStream) -> str:
    """Why the server did not restore them; "" if it did."""
    return error_of(stream, "")
