"""Commands that change the connection itself: schema, reset, user, options, end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.constants import Command as Code
from protocol.response_stream import SIMPLE
from routing.consistency.decision import Reason

if TYPE_CHECKING:
    from proxy.client.session import ClientSession
    from proxy.server.connection import ServerConnection


def forward_quit(session: ClientSession, packet: bytes) -> None:
    """COM_QUIT has no answer but the end."""
    session.connection.close()


def forward_init_db(session: ClientSession, packet: bytes) -> None:
    """COM_INIT_DB: the schema tracker tells when it is done, unless a client has turned it off."""

    def chosen(connection: ServerConnection) -> None:
        if session.primary_settings.undone:
            session.answers.chose_schema(packet[5:].decode("ascii"))

    session.begin(Code.COM_INIT_DB, SIMPLE, packet, effect=chosen)
    session.dispatch.to_primary(Reason.COMMAND)


def forward_set_option(session: ClientSession, packet: bytes) -> None:
    """COM_SET_OPTION turns multi-statements on or off; replicas are given single ones only."""
    if session.primary is not None:
        session.primary.keepable = False  # neither reset nor change of user turns it back
    session.begin(Code.COM_SET_OPTION, SIMPLE, packet)
    session.dispatch.to_primary(Reason.COMMAND)


def forward_reset_connection(session: ClientSession, packet: bytes) -> None:
    """COM_RESET_CONNECTION also undoes the proxy's settings, so they are made again behind it."""

    def reset(connection: ServerConnection) -> None:
        session.reset()

    session.begin(Code.COM_RESET_CONNECTION, SIMPLE, packet, effect=reset)
    session.dispatch.to_primary(Reason.COMMAND)


def forward_change_user(session: ClientSession, packet: bytes) -> None:
    """COM_CHANGE_USER is a new login (`proxy.client.authentication`)."""
    session.change_user(packet)
