"""What `tidegate check --connect` does."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from protocol.constants import Capability
from proxy.check.findings import Severity, judge
from proxy.check.server_facts import ServerFacts, learn
from proxy.config import Config, ConfigError
from proxy.server.login import Login
from routing.servers.topology import Topology

if TYPE_CHECKING:
    from proxy.tls.materials import Materials


def run(config: Config, materials: Materials) -> int:
    """Log in to each server, and say what is missing or differs; return the exit status.

    Raises:
        ConfigError: there is no account to log in with.
    """
    if config.monitor_user is None:
        raise ConfigError("--connect logs in as monitor-user, which is not set")
    servers = asyncio.run(_learn_all(config, materials))
    findings = judge(config, servers)
    for facts in servers:
        if not facts.failure:
            print(f"tidegate: {facts.name} ({facts.role}): MySQL {facts.version}", file=sys.stderr)
        for finding in findings:
            if finding.server == facts.name:
                line = f"tidegate: {finding.server}: {finding.severity}: {finding.text}"
                print(line, file=sys.stderr)
    return int(any(finding.severity is Severity.ERROR for finding in findings))


async def _learn_all(config: Config, materials: Materials) -> list[ServerFacts]:
    topology = Topology(str(config.primary), [str(replica) for replica in config.replicas])
    login = Login(
        username=config.monitor_user or "",
        password=config.monitor_password,
        capabilities=Capability.CLIENT_DEPRECATE_EOF,
    )
    return await asyncio.gather(
        *(learn(server, login, config, materials) for server in topology.servers)
    )
