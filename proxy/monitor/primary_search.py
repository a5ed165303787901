"""Looks for a primary that is gone, where nobody else does: without a monitor.

A session that writes, or a client that logs in, tries the primary by itself. Sessions that only
read would go on without it for ever, with what the replicas alone can promise.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from protocol.errors import ProtocolError, ServerErrorCode
from proxy import tasks
from proxy.channel import ChannelClosedError
from proxy.server.connect.greeting import await_greeting_on, connect
from proxy.server.errors import NoDescriptorError, ServerRefusedError, ServerUnreachableError

if TYPE_CHECKING:
    from proxy.shared.shared import Shared
    from routing.servers.topology import Server

_INTERVAL_S: Final = 1.0
_SHUTDOWN: Final = ServerErrorCode.ER_SERVER_SHUTDOWN.code


class PrimarySearch:
    """Looks for the primary of one worker."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look, if nobody else does."""
        if self._shared.config.monitor_user is None:
            self._task = tasks.start(self._search(), "look for the primary")

    async def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            await tasks.stop(self._task)

    async def _search(self) -> None:
        shared = self._shared
        while True:
            await asyncio.sleep(_INTERVAL_S)
            primary = shared.topology.primary
            if shared.sessions.without_primary and await self._greets(primary):
                shared.metrics.server_up(primary.name, True)
                shared.sessions.on_primary_back(primary)

    async def _greets(self, primary: Server) -> bool:
        """Whether it greets who connects."""
        try:
            async with asyncio.timeout(self._shared.config.connect_timeout):
                attempt = await await_greeting_on(await connect(primary), primary)
        except ServerRefusedError as error:
            return error.error.code != _SHUTDOWN
        except (
            NoDescriptorError,
            ServerUnreachableError,
            ChannelClosedError,
            ProtocolError,
            OSError,  # TimeoutError is one
        ):
            return False
        attempt.leave()
        return True
