"""MySQL 9.7 keeps its GTIDs as the mocker's tests say (WL#6559)."""

from collections.abc import Callable, Iterator

import pytest

from tests.mysql_mocker.gtid_table_matrix import (
    LOGGED,
    MODES,
    SCRIPTS,
    TABLE_CHECKS,
    Mode,
    Peer,
    Script,
    check_script,
    two_sessions_want_the_same,
)
from tests.mysql_mocker.raw_client import RawClient
from tests.real_mysql.required_mysqld import required_mysqld
from tests.real_mysql.scratch import ScratchFolder
from tests.real_mysql.server import RealServer
from tests.real_mysql.template import data_template

USER, PASSWORD = "matrix", "matrix-secret"


class RealPeer:
    """A server of its own, for it crashes and has options that the cluster has not."""

    def __init__(self, server: RealServer, mode: Mode) -> None:
        self.server = server
        self.mode = mode

    def start(self) -> None:
        self.server.start(*self.mode.options)

    def connect(self) -> RawClient:
        return RawClient(self.server.port, USER, PASSWORD, "app")

    def crash(self) -> None:
        self.server.kill()
        self.start()

    def restart(self) -> None:
        self.server.stop()
        self.start()

    def begin_anew(self) -> None:
        """An empty schema, and no GTID."""
        for statement in (
            "SET sql_log_bin = 0",
            "SET GLOBAL gtid_executed_compression_period = DEFAULT",
            "DROP DATABASE IF EXISTS app",
            "CREATE DATABASE app",
            "RESET BINARY LOGS AND GTIDS",
        ):
            self.server.query(statement)


@pytest.fixture(scope="module", params=MODES, ids=str)
def started(request: pytest.FixtureRequest) -> Iterator[RealPeer]:
    mysqld = required_mysqld()
    with ScratchFolder() as scratch:
        peer = RealPeer(RealServer("alone", mysqld, scratch), request.param)
        peer.server.create(data_template(mysqld))
        peer.start()
        for statement in (
            "SET sql_log_bin = 0",
            f"CREATE USER {USER} IDENTIFIED BY '{PASSWORD}'",
            f"GRANT ALL ON *.* TO {USER}",
        ):
            peer.server.query(statement)
        try:
            yield peer
        finally:
            peer.server.kill()


@pytest.fixture
def peer(started: RealPeer) -> RealPeer:
    started.begin_anew()
    return started


@pytest.mark.parametrize("check", TABLE_CHECKS, ids=lambda check: check.__name__)
def test_table(check: Callable[[Peer, Mode], None], peer: RealPeer) -> None:
    check(peer, peer.mode)


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_script(script: Script, peer: RealPeer) -> None:
    if peer.mode is LOGGED:
        check_script(peer, script)


def test_two_sessions_want_the_same(peer: RealPeer) -> None:
    if peer.mode is LOGGED:
        two_sessions_want_the_same(peer)
