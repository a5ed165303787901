"""A session without a connection to the primary logs in there again, and goes on as it was.

It gave its connection back, or lost it with the primary. That may be another server, or another
incarnation, by now.

The server judges the login like any other, so a user who may not log in any more is refused; or it
judged the same login a moment ago (`proxy.server.verified_login`). All that the session
carries is set, and compared (`proxy.client.sharing.portable_state`, `session_values`), before its
next command is sent.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from protocol.errors import ProtocolError, ServerErrorCode
from proxy.channel import ChannelClosedError, PacketChannel
from proxy.client.sharing.session_values import ASK, OtherValuesError, set_back
from proxy.client.statements.session_setup import assignments, user_variables
from proxy.server.account import Requirement
from proxy.server.connect.greeting import LOGIN_PACKET_LIMIT
from proxy.server.errors import ServerRefusedError
from proxy.server.query import answer, ask
from routing.session.defaults import differences
from routing.session.init_connect import leaves_nothing
from routing.session.variables import DEFAULT_ISOLATION, ISOLATION, exact
from routing.sql.user_variables import ALL

if TYPE_CHECKING:
    from proxy.client.sharing.portable_state import Carried
    from proxy.server.connection import ServerConnection
    from proxy.server.login import Login
    from proxy.server.slots import Slot
    from proxy.shared.shared import Shared
    from routing.session.session import Session

_MAY_NOT: Final = frozenset(
    {
        ServerErrorCode.ER_SPECIFIC_ACCESS_DENIED_ERROR.code,
        ServerErrorCode.ER_WRONG_VALUE_FOR_VAR.code,
    }
)
"""Errors by which the server says that the account may not set its connection id."""

_RESTRICTED: Final = ("character_set_filesystem", "max_error_count")
"""Variables of `differences` that need SESSION_VARIABLES_ADMIN."""


class ChangedError(Exception):
    """The session cannot be restored as it was; the text says why."""


async def reopen(
    shared: Shared,
    login: Login,
    state: Session,
    carried: Carried,
    connection_id: int,
    tracking: str,
    slot: Slot,
) -> tuple[ServerConnection, bool]:
    """Log in at the primary again, and make the session what it was.

    Args:
        shared: what sessions share.
        login: as whom.
        state: what routing knows of the session.
        carried: what it took along.
        connection_id: what its client was given for one.
        tracking: the session_track_gtids that its level needs.
        slot: the right to a connection to the primary; it is freed if there is none in the end.

    Returns:
        The connection, and whether CONNECTION_ID() tells that id on it.

    Raises:
        ServerRefusedError: the server does not let the account in any more.
        ServerUnreachableError, ChannelClosedError: there is no connection.
        ChangedError: the session that the server gives now is different.
    """
    stays = shared.config.without_primary == "refuse"
    if stays and slot.server is not carried.server:
        slot.free()
        raise ChangedError("another server has become the primary")
    schema = state.schema or None
    again = login if login.database == schema else replace(login, database=schema)
    connection = await _log_in(shared, again, state.schema, tracking, slot)
    try:
        named = await _restore(connection, state, carried, connection_id)
        if stays and connection.epoch != carried.epoch:
            raise ChangedError("the primary was restarted")  # noqa: TRY301 the connection closes
        if connection.opening.requirement not in (Requirement.NOTHING, Requirement.TLS):
            raise ChangedError("the account's REQUIRE clause is another")  # noqa: TRY301 likewise
    except ProtocolError as error:
        connection.abort()
        raise ChannelClosedError(str(error)) from error
    except BaseException:
        connection.abort()
        raise
    return connection, named


async def _log_in(
    shared: Shared, login: Login, schema: str, tracking: str, slot: Slot
) -> ServerConnection:
    """Take a connection on which the server accepted the login a moment ago, or log in."""
    logins, primary = shared.logins, slot.server
    if shared.primary_epoch.has_begun():
        lent = logins.lend(primary, login, tracking, schema, slot)
        if lent is not None:
            return lent.pass_on_to(PacketChannel(LOGIN_PACKET_LIMIT))
    connection = await logins.log_in_again(primary, login, tracking, slot)
    try:
        await shared.primary_epoch.begin(connection, login)
    except BaseException:
        connection.abort()
        raise
    return connection


async def _restore(
    connection: ServerConnection, state: Session, carried: Carried, connection_id: int
) -> bool:
    """Set what the session carries; whether CONNECTION_ID() tells this id."""
    ahead = connection.take_preface()
    named = connection.thread_id == connection_id
    naming = [] if named else [b"SET @@SESSION.pseudo_thread_id=%d" % connection_id]
    setting = _settings(connection, state, carried)
    values = [ASK] if carried.values else []
    try:
        sent = [*naming, *setting, *values]
        ask(connection, *sent, ahead=ahead)
        for _ in ahead:
            await answer(connection)
        for _ in naming:
            try:
                await answer(connection)
                named = True
            except ServerRefusedError as error:
                if error.error.code not in _MAY_NOT:
                    raise
        for _ in setting:
            await answer(connection)
        for _ in values:
            row = await answer(connection)
            await set_back(connection, carried.values, row[0] if row else None)
    except OtherValuesError as error:
        raise ChangedError(f"{error}") from error
    except ServerRefusedError as error:
        raise ChangedError(f"the server does not take the session's settings: {error}") from error
    return named


def _settings(connection: ServerConnection, state: Session, carried: Carried) -> list[bytes]:
    """What makes a connection's session what it was.

    Raises:
        ChangedError: it cannot be made that.
    """
    identity = connection.identity
    if not carried.values:
        if identity.init_connect and not leaves_nothing(identity.init_connect):
            raise ChangedError("the primary has an init_connect")
        if state.role is None and identity.roles != state.login_roles:
            raise ChangedError("the account has other default roles there")
    begun = dict(differences(state.defaults, identity.defaults))
    if carried.values:
        for name in _RESTRICTED:
            begun.pop(name, None)  # `set_back` tries whether the account may set it
    setting = assignments(begun)
    if identity.isolation != DEFAULT_ISOLATION and ISOLATION not in state.variables:
        setting += assignments({ISOLATION: f"'{DEFAULT_ISOLATION}'"})
    setting += statements(state, carried, autocommit=identity.autocommit)
    return setting + user_variables(connection.mirror, state, (ALL,))


def statements(state: Session, carried: Carried, *, autocommit: bool) -> list[bytes]:
    """What gives a connection that has just logged in the session's variables.

    Args:
        state: of the session.
        carried: what it took along.
        autocommit: what the login gave.
    """
    found = assignments(state.variables)
    for name, literal in state.primary_variables.items():
        if literal is not None and name not in ("autocommit", "transaction_read_only"):
            found.append(f"SET @@SESSION.{name}={exact(literal)}".encode())
    if state.transaction.modes.read_only:
        found.append(b"SET @@SESSION.transaction_read_only=1")
    if state.role is not None:
        found.append(f"SET ROLE {state.role}".encode("utf-8", "surrogateescape"))
    if state.transaction.autocommit is not autocommit:
        found.append(b"SET autocommit=%d" % state.transaction.autocommit)
    if carried.last_insert_id:
        found.append(b"SET @@SESSION.last_insert_id=%d" % carried.last_insert_id)
    return found
