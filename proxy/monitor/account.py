"""The account that the monitor has at each server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.constants import Capability
from proxy.server.login import Login

if TYPE_CHECKING:
    from proxy.config import Config


def login(config: Config) -> Login:
    """Log in as `monitor-user`; where there is none, nobody logs in."""
    return Login(
        username=config.monitor_user or "",
        password=config.monitor_password,
        capabilities=Capability.CLIENT_DEPRECATE_EOF,
    )
