"""A TCP relay before one server, which can be told to behave as a bad network does.

All relays of a campaign share a thread with one event loop; their methods may be called from any
other thread, and return when what they say is true.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Coroutine
from typing import Self, TypeVar

from scripts.ports import reserve_port

CHUNK = 1 << 16
_CONNECT_S = 5.0
_CALL_S = 20.0

_T = TypeVar("_T")


class RelayLoop:
    """The thread in which relays run."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relays", daemon=True)

    def call(self, work: Coroutine[object, object, _T]) -> _T:
        """Run a coroutine there and give its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_CALL_S)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CALL_S)
        self._loop.close()


class _Pipe:
    """One connection of a client, and the one to the server behind it."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.client, self.server = client, server

    def reset(self) -> None:
        """End both with RST."""
        for writer in (self.client, self.server):
            _end_with_reset(writer)


class Relay:
    """Passes connections on to one port of this machine.

    Attributes:
        port: where clients of the server connect, on 127.0.0.1.
    """

    def __init__(self, loop: RelayLoop, target: int) -> None:
        self.port = reserve_port()
        self._loop = loop
        self._target = target
        self._pipes: set[_Pipe] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._swallows = False
        self._delays = {"to_server": 0.0, "to_client": 0.0}
        loop.call(self._listen())

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return f"127.0.0.1:{self.port}"

    # --- what can go wrong ---------------------------------------------------------------------

    def cut(self) -> None:
        """Reset the connections of this moment; new ones are taken."""
        self._loop.call(self._cut())

    def half_close(self) -> None:
        """Tell clients that the server sends no more (FIN); what they send still goes there."""
        self._loop.call(self._half_close())

    def refuse(self) -> None:
        """Reset all connections and take none, until `heal`."""
        self._loop.call(self._refuse())

    def stall(self) -> None:
        """Pass nothing on, until `heal`: then all goes on, as behind a lost route."""
        self._loop.call(self._stall(swallow=False))

    def swallow(self) -> None:
        """Pass nothing on; `heal` resets these connections, as a peer that was restarted does."""
        self._loop.call(self._stall(swallow=True))

    def delay(self, *, to_server: float = 0.0, to_client: float = 0.0) -> None:
        """Hold back what goes into a direction, seconds for each piece."""
        self._delays.update(to_server=to_server, to_client=to_client)

    def heal(self) -> None:
        """Be a good network again."""
        self._loop.call(self._heal())

    def close(self) -> None:
        """End all connections and listen no more."""
        self._loop.call(self._close())

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._pipes)

    # --- in the relays' thread -----------------------------------------------------------------

    async def _listen(self) -> None:
        if self._listener is None:
            self._listener = await asyncio.start_server(self._connected, "127.0.0.1", self.port)

    async def _cut(self) -> None:
        for pipe in list(self._pipes):
            pipe.reset()

    async def _half_close(self) -> None:
        for pipe in list(self._pipes):
            with contextlib.suppress(OSError, RuntimeError):
                pipe.client.write_eof()

    async def _refuse(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        await self._cut()

    async def _stall(self, *, swallow: bool) -> None:
        self._swallows = swallow
        self._flowing.clear()

    async def _heal(self) -> None:
        self._delays.update(to_server=0.0, to_client=0.0)
        if self._swallows:
            await self._cut()
        self._swallows = False
        self._flowing.set()
        await self._listen()

    async def _close(self) -> None:
        await self._refuse()
        self._flowing.set()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CALL_S / 2)  # they end with their connections

    async def _connected(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            await self._flowing.wait()
            opening = asyncio.open_connection("127.0.0.1", self._target)
            answers, server = await asyncio.wait_for(opening, _CONNECT_S)
        except (OSError, TimeoutError):
            _end_with_reset(client)
            return
        pipe = _Pipe(client, server)
        self._pipes.add(pipe)
        try:
            await asyncio.gather(
                self._pump(reader, server, "to_server"), self._pump(answers, client, "to_client")
            )
        except (OSError, RuntimeError):  # RuntimeError: more came behind `half_close`
            pipe.reset()
        finally:
            self._pipes.discard(pipe)
            client.close()
            server.close()

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, direction: str
    ) -> None:
        while True:
            chunk = await source.read(CHUNK)
            await self._flowing.wait()
            if self._delays[direction]:
                await asyncio.sleep(self._delays[direction])
            if not chunk:
                break
            sink.write(chunk)
            await sink.drain()
        with contextlib.suppress(OSError, RuntimeError):  # it has ended already
            sink.write_eof()


def _end_with_reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST, as a firewall or a peer that knows of no connection answers."""
    raw = writer.get_extra_info("socket")
    if raw is not None:
        with contextlib.suppress(OSError):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    writer.transport.abort()
