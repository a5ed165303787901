"""What clients are greeted with: the version of the primary, and what it can do."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from protocol.constants import Capability
from proxy.server.connect.greeting import read_greeting
from proxy.server.errors import NoDescriptorError, ServerUnreachableError

if TYPE_CHECKING:
    from proxy.config import Config
    from proxy.observe.metrics import Metrics
    from routing.servers.topology import Server

_log = logging.getLogger(__name__)

_ASSUMED_VERSION: Final = "8.4.0"
"""Told to clients while the primary was never reached; they cannot log in then anyway."""


class ServerGreeting:
    """What one worker's clients are offered.

    Attributes:
        version: the primary's.
        capabilities: clients are not offered more.
    """

    def __init__(self) -> None:
        self.version = _ASSUMED_VERSION
        self.capabilities = ~Capability(0)

    async def learn(self, primary: Server, config: Config, metrics: Metrics) -> None:
        """Let the primary say who it is, if it can be reached."""
        try:
            greeting = await read_greeting(primary, config)
        except NoDescriptorError:
            return  # which was logged
        except ServerUnreachableError as error:
            metrics.server_up(primary.name, False)
            _log.warning("the primary %s cannot be reached yet: %s", primary.name, error)
            return
        self.version = primary.version = greeting.server_version
        self.capabilities = greeting.capabilities
