"""The clients that are connected to a server."""

from collections.abc import Callable
from typing import Protocol

from mysql_mocker.sql.value import Row


class Client(Protocol):
    """One connection."""

    @property
    def id(self) -> int:
        """CONNECTION_ID()."""
        ...

    def interrupt(self) -> None:
        """KILL QUERY."""
        ...

    def abort(self) -> None:
        """KILL."""
        ...

    async def kill(self) -> None:
        """The server dies."""
        ...

    def process(self) -> Row:
        """A line of SHOW PROCESSLIST."""
        ...


class Clients:
    """All connections of a server, by their ids."""

    def __init__(self) -> None:
        self._open: dict[int, Client] = {}
        self._next = 1

    def __len__(self) -> int:
        return len(self._open)

    @property
    def counted(self) -> int:
        """How many there have been since the beginning."""
        return self._next - 1

    def add(self, connect: Callable[[int], Client]) -> None:
        """A client connected: `connect` makes its connection, with the id that it is given."""
        client = connect(self._next)
        self._open[client.id] = client
        self._next += 1

    def forget(self, client: Client) -> None:
        """A connection ended."""
        self._open.pop(client.id, None)

    def disconnect(self) -> int:
        """Breaks all connections without an ERR packet; returns how many there were."""
        clients = list(self._open.values())
        for client in clients:
            client.abort()
        return len(clients)

    async def die(self) -> None:
        """Breaks all connections, and waits until what they ran has ended."""
        for client in list(self._open.values()):
            await client.kill()

    def kill(self, connection_id: int, *, query_only: bool) -> bool:
        """KILL; False if there is no such connection."""
        client = self._open.get(connection_id)
        if client is None:
            return False
        if query_only:
            client.interrupt()
        else:
            client.abort()
        return True

    def processes(self) -> list[Row]:
        """SHOW PROCESSLIST."""
        return [client.process() for client in self._open.values()]
