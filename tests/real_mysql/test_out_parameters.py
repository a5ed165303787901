"""OUT parameters of prepared CALLs, packet for packet, for clients old and new."""

import pytest

from protocol.constants import Capability, Command
from protocol.response_stream import PREPARED, RESULTS, SIMPLE
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


def call(address: str, capabilities: Capability, flags: int) -> list[Packet]:
    with RawClient(address, APP_USER, APP_PASSWORD, capabilities, "app") as client:
        client.query("SET @x = 1")
        client.command(Command.COM_STMT_PREPARE, b"CALL gives(?, @x)", PREPARED)
        parameters = b"\x00\x01\x08\x00" + (3).to_bytes(8, "little")
        body = (1).to_bytes(4, "little") + bytes((flags,)) + b"\x01\0\0\0" + parameters
        answer = client.command(Command.COM_STMT_EXECUTE, body, RESULTS)
        assert len(client.command(Command.COM_PING, shape=SIMPLE)) == 1
        return answer


@pytest.mark.parametrize("cursor", [False, True])
@pytest.mark.parametrize("name", CLIENTS)
def test_out_parameters(cluster: Cluster, proxy: StartProxy, name: str, cursor: bool) -> None:
    cluster.primary.query("DROP PROCEDURE IF EXISTS app.gives")
    cluster.primary.query(
        "CREATE PROCEDURE app.gives(INOUT a BIGINT, OUT b INT)"
        " BEGIN SELECT a AS before_it; SET a = a + 1, b = 7; END"
    )
    cluster.wait_caught_up()
    direct = call(cluster.primary.address, CLIENTS[name], cursor)
    through = call(proxy().address, CLIENTS[name], cursor)
    assert through == direct
    assert len(direct) > 5
