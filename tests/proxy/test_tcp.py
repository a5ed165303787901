"""Connections to servers are watched by TCP itself."""

import asyncio
import socket
from collections.abc import Callable

import pytest
import uvloop

from proxy.server.connect.greeting import connect
from proxy.server.tcp import GIVEN_UP_S, be_patient
from routing.consistency.adjustment import MAX_WAIT_BUDGET
from routing.servers.topology import Role, Server

linux = pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="Linux has them")


def options(run: Callable[..., None], patient: bool) -> dict[str, int]:
    """Those of a connection to a server, on an event loop."""
    found = {}

    async def look() -> None:
        listening = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        channel = await connect(Server(f"127.0.0.1:{port}", Role.REPLICA))
        if patient:
            be_patient(channel.transport)
        end = channel.transport.get_extra_info("socket")
        found["SO_KEEPALIVE"] = end.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT"):
            found[name] = end.getsockopt(socket.IPPROTO_TCP, getattr(socket, name))
        channel.abort()
        listening.close()

    run(look())
    return found


@linux
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_server_that_vanishes_is_noticed(run: Callable[..., None]) -> None:
    found = options(run, patient=False)
    assert found["SO_KEEPALIVE"] == 1
    asked_for = found["TCP_KEEPIDLE"] + found["TCP_KEEPINTVL"] * found["TCP_KEEPCNT"]
    assert asked_for == GIVEN_UP_S
    assert found["TCP_USER_TIMEOUT"] == GIVEN_UP_S * 1000
    # A server reads nothing behind a WAIT.
    assert MAX_WAIT_BUDGET < GIVEN_UP_S


@linux
def test_a_server_may_take_its_time_with_a_local_file() -> None:
    found = options(uvloop.run, patient=True)
    assert found["SO_KEEPALIVE"] == 1
    assert found["TCP_USER_TIMEOUT"] == 0
