"""Commands that change the connection itself: schema, reset, user, options, end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.constants import Command as Code
from proxy.client.requests.commands.action import Action, ChangeUser, Quit, ToPrimary
from routing.consistency.decision import Reason

if TYPE_CHECKING:
    from proxy.client.requests.commands.command_context import CommandContext


def leave(context: CommandContext, packet: bytes) -> Action:
    """COM_QUIT has no answer: the connection just ends."""
    return Quit()


def init_db(context: CommandContext, packet: bytes) -> Action:
    """COM_INIT_DB: the schema tracker tells when it is done, unless a client has turned it off."""
    return ToPrimary(context.command(Code.COM_INIT_DB, packet), Reason.COMMAND)


def set_option(context: CommandContext, packet: bytes) -> Action:
    """COM_SET_OPTION turns multi-statements on or off; replicas are given single ones only."""
    primary = context.servers.primary
    if primary is not None:
        primary.keepable = False  # neither a reset nor a change of user undoes it
    context.state.multi_statements = True
    return ToPrimary(context.command(Code.COM_SET_OPTION, packet), Reason.COMMAND)


def reset_connection(context: CommandContext, packet: bytes) -> Action:
    """COM_RESET_CONNECTION also undoes the proxy's settings, so they are made again after it."""
    return ToPrimary(context.command(Code.COM_RESET_CONNECTION, packet), Reason.COMMAND)


def change_user(context: CommandContext, packet: bytes) -> Action:
    """COM_CHANGE_USER is a new login (`proxy.client.login.change_user`)."""
    return ChangeUser(context.command(Code.COM_CHANGE_USER, packet))
