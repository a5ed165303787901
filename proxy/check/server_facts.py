"""What a server says of itself, as far as Tidegate depends on it."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from protocol.errors import ProtocolError
from proxy.channel import ChannelClosedError
from proxy.error_text import error_text
from proxy.monitor import lag
from proxy.monitor.filters import left_out_by_applier
from proxy.monitor.replicas import replicas
from proxy.server.binary_log_question import binary_log
from proxy.server.connect.opening import open_connection
from proxy.server.errors import ServerRefusedError, ServerUnreachableError
from proxy.server.query import ask, query, rows
from routing.servers.replication_status import MalformedStatusError
from routing.session.defaults import UNKNOWN, Defaults

if TYPE_CHECKING:
    from proxy.config import Config
    from proxy.server.connection import ServerConnection
    from proxy.server.login import Login
    from proxy.tls.materials import Materials
    from routing.servers.clock import Clock
    from routing.servers.topology import Role, Server

T = TypeVar("T")

_VARIABLES: Final = b"SHOW GLOBAL VARIABLES"
_CHANNELS: Final = b"SHOW REPLICA STATUS"
Channel = Mapping[str, str]
"""A row of SHOW REPLICA STATUS; what is NULL is not in it."""


@dataclass
class ServerFacts:
    """What one server said.

    Attributes:
        name: ``host:port``.
        role: as configured.
        version: as its greeting gave it; empty if it did not come so far.
        failure: why it could not be asked; empty if it was.
        variables: its global variables, by name.
        defaults: what its sessions begin with.
        channels: whom it replicates from; None if that may not be seen.
        applier_filters: what its appliers leave out; None likewise.
        log_filters: what its binary log leaves out; None likewise.
        clock: what its clock is ahead of this machine's; None if that is not known.
        refusals: what the account may not ask, and the server's answer.
    """

    name: str
    role: Role
    version: str = ""
    failure: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    defaults: Defaults = UNKNOWN
    channels: tuple[Channel, ...] | None = None
    applier_filters: str | None = None
    log_filters: str | None = None
    clock: Clock | None = None
    refusals: dict[str, str] = field(default_factory=dict)

    def is_on(self, variable: str) -> bool:
        """Whether a variable is ON."""
        return self.variables.get(variable, "").upper() in ("ON", "1")


async def learn(server: Server, login: Login, config: Config, materials: Materials) -> ServerFacts:
    """Log in to a server and ask it; what fails is part of the facts."""
    facts = ServerFacts(server.name, server.role)
    try:
        connection = await open_connection(server, login, config, materials, "OFF")
        try:
            await _ask(connection, facts)
            if config.topology == "auto" or config.table_dependencies != "off":
                await _Permitted(facts)("replicas", replicas(connection))
        finally:
            connection.abort()
    except (
        ServerRefusedError,
        ServerUnreachableError,
        ChannelClosedError,
        ProtocolError,
        MalformedStatusError,
    ) as error:
        facts.failure = error_text(error)
    facts.version = server.version
    return facts


async def _ask(connection: ServerConnection, facts: ServerFacts) -> None:
    facts.defaults = connection.identity.defaults
    ask(connection, _VARIABLES)
    facts.variables = {
        _text(row["Variable_name"]): _text(row["Value"]) for row in await rows(connection)
    }
    facts.clock = await lag.clock(connection)
    may_see = _Permitted(facts)
    facts.channels = await may_see("replication", _channels(connection))
    facts.applier_filters = await may_see("filters", left_out_by_applier(connection))
    log = await may_see("binary log", binary_log(connection))
    facts.log_filters = None if log is None else log.left_out
    for table in (*lag.TABLES, *lag.FURTHER_TABLES):
        await may_see(table, query(connection, b"SELECT 1 FROM " + table.encode() + b" LIMIT 0"))


async def _channels(connection: ServerConnection) -> tuple[Channel, ...]:
    ask(connection, _CHANNELS)
    return tuple(
        {name: _text(value) for name, value in row.items() if value is not None}
        for row in await rows(connection)
    )


class _Permitted:
    """Notes what the account may not ask."""

    def __init__(self, facts: ServerFacts) -> None:
        self._facts = facts

    async def __call__(self, subject: str, answer: Awaitable[T]) -> T | None:
        try:
            return await answer
        except ServerRefusedError as error:
            self._facts.refusals[subject] = str(error)
            return None


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "replace")
