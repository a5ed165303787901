"""A client's connection: its login, then one command after the other."""

import asyncio
from typing import Final

from mysql_mocker.error import MySQLError
from mysql_mocker.sql.value import Row
from mysql_mocker.state.instance import Instance
from mysql_mocker.state.session import Session
from mysql_mocker.statements.execution import Execution
from mysql_mocker.wire.channel import Channel, ConnectionGoneError
from mysql_mocker.wire.commands import Commands
from mysql_mocker.wire.login import Login, log_in
from mysql_mocker.wire.reply import Reply
from protocol.constants import Capability, Command
from protocol.errors import (
    PacketOutOfOrderError,
    PacketTooLargeError,
    ProtocolError,
    ServerErrorCode,
)
from protocol.response import ErrPacket

_FATAL: Final = (PacketOutOfOrderError, PacketTooLargeError)


def _report(task: asyncio.Task[None]) -> None:
    """Has the event loop report a defect: a connection must not die silently."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        context = {"message": f"{task.get_name()} failed", "exception": error, "task": task}
        task.get_loop().call_exception_handler(context)


class Connection:
    """One client.

    Args:
        connection_id: CONNECTION_ID() of its session.
    """

    def __init__(self, server: Instance, channel: Channel, connection_id: int) -> None:
        self.id = connection_id
        self._server = server
        self._channel = channel
        self._task: asyncio.Task[None] | None = None
        self._session: Session | None = None
        self._capabilities = Capability(0)
        self._dying = False
        self._command = "Connect"

    def start(self) -> None:
        """Begins to serve."""
        self._task = asyncio.create_task(self._serve(), name=f"mocker connection {self.id}")
        self._task.add_done_callback(_report)

    def interrupt(self) -> None:
        """KILL QUERY."""
        if self._session is not None:
            self._session.interrupt()

    def abort(self) -> None:
        """KILL: the connection closes without an ERR packet; one that kills itself gets one."""
        if asyncio.current_task() is self._task:
            self._dying = True
        else:
            self._channel.abort()
            self.interrupt()

    async def kill(self) -> None:
        """The server dies."""
        self._channel.abort()
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task})

    def process(self) -> Row:
        """A line of SHOW PROCESSLIST."""
        session = self._session
        if session is None:
            return (
                self.id,
                "unauthenticated user",
                self._channel.peer,
                None,
                "Connect",
                0,
                "",
                None,
            )
        text = session.statement if self._command == "Query" else None
        return (self.id, session.user, session.host, session.schema, self._command, 0, "", text)

    # From the login to the end.

    async def _serve(self) -> None:
        try:
            login = await self._log_in()
            if login is not None:
                self._capabilities = login.capabilities
                await self._serve_session(login)
        except ConnectionGoneError:
            pass  # The usual end.
        finally:
            self._channel.close()
            self._server.clients.forget(self)

    async def _log_in(self) -> Login | None:
        try:
            return await log_in(self._server, self._channel, self.id)
        except MySQLError as error:
            packet = ErrPacket(error.code, error.sqlstate, error.message)
        except ProtocolError as error:
            packet = ErrPacket.of(ServerErrorCode.ER_HANDSHAKE_ERROR, f"Bad handshake: {error}")
        self._channel.add(packet.serialise(Capability.CLIENT_PROTOCOL_41))
        await self._channel.flush()
        return None

    async def _serve_session(self, login: Login) -> None:
        session = Session(self._server, self.id, login.user, self._channel.peer)
        execution = Execution(session)
        session.found_rows_wanted = bool(login.capabilities & Capability.CLIENT_FOUND_ROWS)
        self._session = session
        reply = Reply(self._channel, session, login.capabilities)
        commands = Commands(self._server, self._channel, execution, reply, login.capabilities)
        try:
            if not await self._enter_schema(session, reply, login.schema):
                return
            while not self._dying:
                self._command = "Sleep"
                self._channel.sequence_id = 0
                payload = await self._read(reply)
                if payload is None or payload[:1] == bytes((Command.COM_QUIT,)):
                    return
                self._command = "Query"
                await commands.run(payload)
        finally:
            session.close()

    async def _enter_schema(self, session: Session, reply: Reply, schema: str | None) -> bool:
        """Ends the login with OK or ERR."""
        try:
            if schema is not None:
                session.choose_schema(schema)
        except MySQLError as error:
            reply.error(error)
            await self._channel.flush()
            return False
        reply.ok()
        await self._channel.flush()
        return True

    async def _read(self, reply: Reply) -> bytes | None:
        """The next command; None if the connection has to end."""
        try:
            return await self._channel.read_packet()
        except _FATAL as error:
            text = {
                ServerErrorCode.ER_NET_PACKETS_OUT_OF_ORDER: "Got packets out of order",
                ServerErrorCode.ER_NET_PACKET_TOO_LARGE: (
                    "Got a packet bigger than 'max_allowed_packet' bytes"
                ),
            }[error.error]
            self._channel.sequence_id = 1
            reply.error(MySQLError.of(error.error, text))
            await self._channel.flush()
            return None
