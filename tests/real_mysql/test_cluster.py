"""The cluster fixture: what a test breaks, the next test does not see."""

import pytest

from tests.real_mysql.cluster import Cluster


class TestHealing:
    """Each test breaks something; `_assert_whole` runs after healing."""

    @pytest.fixture
    def _assert_whole(self, cluster: Cluster) -> object:
        yield
        cluster.heal()
        for replica in cluster.replicas:
            assert replica.value("SELECT @@GLOBAL.super_read_only") == "1"
            assert replica.replica_status()["SQL_Delay"] == 0
        cluster.primary.query("CREATE DATABASE IF NOT EXISTS whole")
        cluster.primary.query("DROP DATABASE whole")
        cluster.wait_caught_up()

    pytestmark = pytest.mark.usefixtures("_assert_whole")

    def test_a_killed_server(self, cluster: Cluster) -> None:
        uuid = cluster.primary.server_uuid
        cluster.primary.kill()
        assert not cluster.primary.running
        cluster.heal()
        assert cluster.primary.server_uuid == uuid

    def test_a_frozen_replica(self, cluster: Cluster) -> None:
        cluster.replicas[1].pause()

    def test_options_of_one_run(self, cluster: Cluster) -> None:
        cluster.replicas[0].restart("--session-track-gtids=ALL_GTIDS")
        assert cluster.replicas[0].value("SELECT @@GLOBAL.session_track_gtids") == "ALL_GTIDS"
        cluster.heal()
        assert cluster.replicas[0].value("SELECT @@GLOBAL.session_track_gtids") == "OFF"

    def test_global_variables(self, cluster: Cluster) -> None:
        replica = cluster.replicas[0]
        replica.query("SET GLOBAL super_read_only = OFF, read_only = OFF, max_connections = 50")
        replica.query("SET GLOBAL sql_mode = 'ANSI_QUOTES'")
        cluster.heal()
        assert replica.value("SELECT @@GLOBAL.max_connections") == "300"
        assert "ANSI_QUOTES" not in replica.value("SELECT @@GLOBAL.sql_mode")

    def test_delay_and_stopped_replication(self, cluster: Cluster) -> None:
        cluster.replicas[0].set_source_delay(3600)
        cluster.replicas[1].query("STOP REPLICA")

    def test_a_replica_with_transactions_of_its_own(self, cluster: Cluster) -> None:
        replica = cluster.replicas[0]
        replica.query("SET GLOBAL super_read_only = OFF")
        replica.query("CREATE DATABASE errant")

    def test_a_promoted_replica(self, cluster: Cluster) -> None:
        promoted = cluster.replicas[0]
        promoted.query("STOP REPLICA")
        promoted.query("RESET REPLICA ALL")
        promoted.query("SET GLOBAL super_read_only = OFF, read_only = OFF")
        promoted.query("CREATE DATABASE after_failover")

    def test_prepared_xa_transactions_and_locks(self, cluster: Cluster) -> None:
        connection = cluster.primary.connect()
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE held (n INT)")
        cursor.execute("XA START 'branch', 'b'")
        cursor.execute("INSERT INTO held VALUES (1)")
        cursor.execute("XA END 'branch', 'b'")
        cursor.execute("XA PREPARE 'branch', 'b'")
        cluster.clear()
        assert cluster.primary.query("SHOW TABLES FROM app") == []
