"""A real server and one of the mocker, on which sessions are run side by side."""

from collections.abc import Iterator

import pytest

from mysql_mocker.server.cluster import Cluster
from tests.mysql_mocker.differential.arena import Arena
from tests.mysql_mocker.differential.normalising import Peer
from tests.mysql_mocker.differential.schema import ACCOUNT, GLOBALS, PASSWORD, USER
from tests.real_mysql.cluster import RealServer
from tests.real_mysql.required_mysqld import required_mysqld
from tests.real_mysql.scratch import ScratchFolder
from tests.real_mysql.template import data_template
from tests.support.background_cluster import BackgroundCluster
from tests.support.services import needs

_FORGETFUL = "--innodb-doublewrite=OFF"
"""Definitions are made anew for many sessions, and none has to outlive the machine."""


@pytest.fixture(scope="module")
@needs("real_mysql")
def real() -> Iterator[RealServer]:
    """A server alone, with the sessions' account."""
    mysqld = required_mysqld()
    with ScratchFolder() as scratch:
        server = RealServer("alone", mysqld, scratch, _FORGETFUL)
        server.create(data_template(mysqld))
        server.launch()
        server.wait_ready()
        for sql in ACCOUNT:
            server.query(sql)
        for assignment in GLOBALS:
            server.query(f"SET GLOBAL {assignment}")
        yield server
        server.kill()


@pytest.fixture(scope="module")
def arena(real: RealServer) -> Iterator[Arena]:
    """Where a session is run on both."""
    accounts = {USER: PASSWORD}
    with BackgroundCluster(lambda: Cluster(0, accounts=accounts, schemas=())) as mocker:
        primary = mocker.cluster.primary
        yield Arena(
            Peer(real.address, real.server_uuid),
            Peer(primary.address, primary.gtids.server_uuid),
        )
