"""OUT parameters of prepared CALLs, packet for packet, for clients old and new."""

import pytest

from protocol.constants import Capability, Command
from protocol.packet import frame
from protocol.response_stream import PREPARED, RESULTS
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.raw_client import Packet, RawClient
from tests.real_mysql.template import APP_PASSWORD, APP_USER

CLIENTS = {
    "older": Capability.CLIENT_MULTI_RESULTS | Capability.CLIENT_PS_MULTI_RESULTS,
    "newer": Capability.CLIENT_MULTI_RESULTS
    | Capability.CLIENT_PS_MULTI_RESULTS
    | Capability.CLIENT_DEPRECATE_EOF,
}


def call(address: str, capabilities: Capability, packets: int) -> list[Packet]:
    """The answer to a prepared CALL; an older one's end cannot be told from its flags."""
    with RawClient(address, APP_USER, APP_PASSWORD, capabilities, "app") as client:
        client.query("SET @x = 1")
        client.command(Command.COM_STMT_PREPARE, b"CALL gives(?, @x)", PREPARED)
        parameters = b"\x00\x01\x08\x00" + (3).to_bytes(8, "little")
        body = (1).to_bytes(4, "little") + b"\0\x01\0\0\0" + parameters
        client.send(frame(bytes((Command.COM_STMT_EXECUTE,)) + body, 0))
        answer = [client.read() for _ in range(packets)]
        ping = client.command(Command.COM_PING, shape=RESULTS)
        assert len(ping) == 1
        return answer


@pytest.mark.parametrize("name", CLIENTS)
def test_out_parameters(cluster: Cluster, proxy: StartProxy, name: str) -> None:
    cluster.primary.query("DROP PROCEDURE IF EXISTS app.gives")
    cluster.primary.query(
        "CREATE PROCEDURE app.gives(INOUT a BIGINT, OUT b INT)"
        " BEGIN SELECT a AS before_it; SET a = a + 1, b = 7; END"
    )
    cluster.wait_caught_up()
    packets = 11 if name == "older" else 9
    direct = call(cluster.primary.address, CLIENTS[name], packets)
    through = call(proxy().address, CLIENTS[name], packets)
    assert through == direct
