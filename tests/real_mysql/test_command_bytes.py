"""Every byte that can begin a command is answered as a server answers it, whatever follows."""

import pytest

from protocol.constants import Capability, Command
from protocol.packet import frame
from protocol.response import ErrPacket
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.raw_client import Packet, RawClient
from tests.real_mysql.template import APP_PASSWORD, APP_USER

BODIES = [b"", b"\x01", bytes(3), bytes(4), bytes(5), bytes(8), b"x" * 40, b"x" * 70_000]
NOT_PASSED_ON = {
    Command.COM_BINLOG_DUMP,
    Command.COM_BINLOG_DUMP_GTID,
    Command.COM_REGISTER_SLAVE,
    Command.COM_CLONE,
    Command.COM_SUBSCRIBE_GROUP_REPLICATION_STREAM,
}
"""Tidegate refuses these itself (docs/compatibility.md)."""
LEFT_OUT = {Command.COM_QUIT, Command.COM_STATISTICS, Command.COM_CHANGE_USER} | NOT_PASSED_ON
"""The first ends the session, the second has another text each time, the third asks for a password
and ends the session, too."""
EOF_AND_TRACKERS = Capability.CLIENT_DEPRECATE_EOF | Capability.CLIENT_SESSION_TRACK


def answers(client: RawClient, *payloads: bytes) -> list[Packet]:
    """What comes for these commands, sent at once, before the text of a COM_STATISTICS."""
    statistics = bytes((Command.COM_STATISTICS,))
    client.send(b"".join(frame(payload, 0) for payload in (*payloads, statistics)))
    packets: list[Packet] = []
    while True:
        packet = client.read()
        if packet[0] == 1 and packet[1].startswith(b"Uptime: "):
            return packets
        # How many conditions a COM_PING tells of is another test's (test_diagnostics_area.py).
        is_ok = packet[1][:3] == bytes(3) and len(packet[1]) == 7
        packets.append((packet[0], packet[1][:5]) if is_ok else packet)


@pytest.mark.parametrize("capabilities", [EOF_AND_TRACKERS, Capability(0)], ids=["modern", "old"])
def test_whatever_is_sent_as_a_command(
    cluster: Cluster, proxy: StartProxy, capabilities: Capability
) -> None:
    running = proxy()
    found = []
    for address in (cluster.primary.address, running.address):
        with RawClient(address, APP_USER, APP_PASSWORD, capabilities, "app") as client:
            ping = bytes((Command.COM_PING,))
            found.append([(None, answers(client, b"", ping))])
            for code in range(256):
                if code not in LEFT_OUT:
                    for body in BODIES:
                        payload = bytes((code,)) + body
                        found[-1].append((payload[:9], answers(client, payload, ping)))
    for expected, got in zip(*found, strict=True):
        assert got == expected


def test_what_concerns_one_server_alone_is_refused(cluster: Cluster, proxy: StartProxy) -> None:
    with RawClient(proxy().address, APP_USER, APP_PASSWORD, EOF_AND_TRACKERS, "app") as client:
        for command in sorted(NOT_PASSED_ON):
            for body in BODIES:
                [(_, payload)] = answers(client, bytes((command,)) + body)
                error = ErrPacket.parse(payload)
                assert (error.code, error.sqlstate) == (1235, "42000")
                assert command.name in error.message
