"""A way to a server that can be shut: it looks then as if the server were frozen."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mysql_mocker.server.server import Server


class Valve:
    """Passes on what comes, while it is open.

    Attributes:
        server: where it leads.
        address: ``127.0.0.1:port``, in place of the server's.
        accepted: connections that were made while it was shut.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self._open = asyncio.Event()
        self._open.set()
        self._listening: asyncio.Server | None = None
        self._room = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.address = ""
        self.accepted = 0

    def shut(self, after: int = 0) -> None:
        """Pass on so many more bytes of what the server says, then nothing in either direction."""
        self._room = after
        self._open.clear()

    def open(self) -> None:
        """Pass on what has come meanwhile, and all else."""
        self._open.set()

    async def refuse(self) -> None:
        """Take no more connections; those that there are stay."""
        assert self._listening is not None
        self._listening.close()

    async def start(self) -> None:
        self._listening = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._listening.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        await self.refuse()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            if not self._open.is_set():
                self.accepted += 1
                await self._open.wait()
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self.server.port)
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._pump(reader, to_server))
                    both.create_task(self._pump(from_server, writer, answers=True))
            finally:
                to_server.close()
        except* (ConnectionError, asyncio.CancelledError, RuntimeError):
            pass  # uvloop raises a RuntimeError where the other end has closed meanwhile
        finally:
            writer.close()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answers: bool = False
    ) -> None:
        try:
            while data := await reader.read(1 << 16):
                while data:
                    part = data
                    if not self._open.is_set():
                        if not self._room:
                            await self._open.wait()
                            continue
                        if answers:
                            part = data[: self._room]
                            self._room -= len(part)
                    if writer.transport.is_closing():
                        return
                    writer.write(part)
                    data = data[len(part) :]
        finally:
            writer.close()


@asynccontextmanager
async def valve(server: Server) -> AsyncIterator[Valve]:
    """One before a server of the mocker."""
    running = Valve(server)
    await running.start()
    try:
        yield running
    finally:
        await running.stop()
