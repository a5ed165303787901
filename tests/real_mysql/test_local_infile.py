"""LOCAL INFILE amid other results: packet by packet as without Tidegate, numbers and all."""

from __future__ import annotations

import pytest

from protocol.constants import MAX_PACKET_PAYLOAD, Capability, Command
from protocol.packet import frame
from protocol.response_stream import RESULTS, ResponseStream
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.raw_client import Packet, RawClient
from tests.real_mysql.template import APP_PASSWORD, APP_USER

SQL = (
    "SELECT 1; SELECT 2 UNION SELECT 3; LOAD DATA LOCAL INFILE 'x' INTO TABLE loaded;"
    " SELECT COUNT(*) FROM loaded; LOAD DATA LOCAL INFILE 'y' INTO TABLE loaded; SELECT 4"
)
LONG = (b"1\t" + b"x" * 9997 + b"\n") * 1700
FILES = {
    "nothing": [],
    "a few rows": [b"1\n", b"2\n3\n"],
    "more packets than there are numbers": [b"%d\n" % n for n in range(700)],
    "a row that two packets share": [b"1", b"1\n"],
    "packets of 16 MiB": [LONG[:MAX_PACKET_PAYLOAD], LONG[MAX_PACKET_PAYLOAD:]],
}


def load(client: RawClient, contents: list[bytes]) -> list[Packet]:
    """Every packet of the answer to `SQL`, with two files of these packets."""
    deprecate_eof = bool(client.capabilities & Capability.CLIENT_DEPRECATE_EOF)
    stream = ResponseStream(deprecate_eof, session_track=False)
    stream.begin(RESULTS)
    client.send(frame(bytes((Command.COM_QUERY,)) + SQL.encode(), 0))
    packets: list[Packet] = []
    while not stream.done:
        number, payload = client.read()
        packets.append((number, payload))
        stream.feed(frame(payload, number))
        if stream.infile:
            for part in [*contents, b""]:
                client.send(frame(part, number + 1))
                number += 1 + len(part) // MAX_PACKET_PAYLOAD
            stream.infile_sent()
    return packets


@pytest.mark.parametrize("server_compression", ["off", "zlib"])
@pytest.mark.parametrize("deprecate_eof", [True, False])
@pytest.mark.parametrize("file", FILES)
def test_every_packet_is_as_without_tidegate(
    proxy: StartProxy, cluster: Cluster, file: str, deprecate_eof: bool, server_compression: str
) -> None:
    cluster.primary.query("SET GLOBAL local_infile = ON")
    capabilities = Capability.CLIENT_LOCAL_FILES
    if deprecate_eof:
        capabilities |= Capability.CLIENT_DEPRECATE_EOF
    answers = []
    for address in (
        cluster.primary.address,
        proxy(server_compression=server_compression).address,
    ):
        cluster.primary.query("DROP TABLE IF EXISTS app.loaded")
        cluster.primary.query("CREATE TABLE app.loaded (id BIGINT, v TEXT)")
        with RawClient(address, APP_USER, APP_PASSWORD, capabilities, "app") as client:
            answers.append(load(client, FILES[file]))
    assert answers[1] == answers[0]
