"""What an error says is said in character_set_results, by the proxy as by a server."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from protocol.constants import Capability, Command
from protocol.response_stream import SIMPLE
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.raw_client import Packet, RawClient
from tests.real_mysql.template import APP_PASSWORD, APP_USER

MODERN = Capability.CLIENT_DEPRECATE_EOF | Capability.CLIENT_SESSION_TRACK
UNKNOWN_HANDLER = (7).to_bytes(4, "little") + b"\x00" + (1).to_bytes(4, "little")
WAYS = (
    "SET character_set_results = {}",
    "SET NAMES utf8mb4, character_set_results = {}",
    "SET @x = 1, SESSION character_set_results = '{}'",
    "SET @@character_set_results = CONCAT('{}', '')",
)


def sessions(*addresses: str) -> Iterator[RawClient]:
    for address in addresses:
        yield RawClient(address, APP_USER, APP_PASSWORD, MODERN, database="app")


def errors(session: RawClient) -> list[Packet]:
    """The first two are the proxy's own, the third is a read's."""
    return [
        *session.command(Command.COM_SLEEP, shape=SIMPLE),
        *session.command(Command.COM_STMT_EXECUTE, UNKNOWN_HANDLER),
        *session.query("SELECT * FROM absent"),
        *session.query('SELECT * FROM `abs漢é"ent`'),
    ]


@pytest.mark.parametrize("way", range(len(WAYS)))
def test_the_proxys_errors_are_those_of_a_server(
    cluster: Cluster, proxy: StartProxy, way: int
) -> None:
    names = [
        str(name)
        for (name,) in cluster.primary.query(
            "SELECT CHARACTER_SET_NAME FROM information_schema.CHARACTER_SETS"
        )
    ]
    direct, through = sessions(cluster.primary.address, proxy().address)
    different: dict[str, tuple[list[Packet], list[Packet]]] = {}
    with closing(direct), closing(through):
        for name in [*names, "utf8mb4"] if way == 0 else ["utf16", "utf16le", "latin1", "utf32"]:
            texts = []
            for session in (direct, through):
                ((_, answer),) = session.query(WAYS[way].format(name))
                assert answer[0] == 0, name
                texts.append(errors(session))
            if texts[0] != texts[1]:
                different[name] = (texts[0], texts[1])
        for undo in ("SET NAMES utf8mb4", "SET character_set_results = DEFAULT"):
            for session in (direct, through):
                session.query("SET character_set_results = utf16")
                session.query(undo)
            assert errors(direct) == errors(through), undo
        for session in (direct, through):
            session.query("SET character_set_results = utf16")
            session.command(Command.COM_RESET_CONNECTION, shape=SIMPLE)
        assert errors(direct) == errors(through)
    assert different == {}
