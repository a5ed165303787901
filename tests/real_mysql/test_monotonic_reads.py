"""Reads at MONOTONIC_READS, most of which take the fast path, while replicas differ.

`test_levels.py` has every read audited, which takes a question of its own; here none is.
"""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

from protocol.constants import Capability, Command
from protocol.gtid import GtidSet
from protocol.response_stream import PREPARED
from protocol.resultset import parse_text_row
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.raw_client import NOTHING, RawClient
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.server import RealServer
from tests.real_mysql.template import APP_PASSWORD, APP_USER
from tests.support.waiting import eventually

CLIENTS = {
    "both": Capability.CLIENT_DEPRECATE_EOF | Capability.CLIENT_SESSION_TRACK,
    "DEPRECATE_EOF": Capability.CLIENT_DEPRECATE_EOF,
    "neither": NOTHING,
}
READ = "SELECT n FROM app.seen WHERE id = 1"


@contextmanager
def session(running: RunningProxy, capabilities: Capability) -> Iterator[RawClient]:
    with closing(RawClient(running.address, APP_USER, APP_PASSWORD, capabilities, "app")) as client:
        client.query("SET tidegate_consistency = 'MONOTONIC_READS'")
        yield client


def by_text(client: RawClient) -> Callable[[], int]:
    def read() -> int:
        (value,) = parse_text_row(row(client.query(READ)))
        return int(value or b"")

    return read


def prepared(client: RawClient) -> Callable[[], int]:
    head = client.command(Command.COM_STMT_PREPARE, READ.encode(), PREPARED)[0][1]

    def read() -> int:
        packets = client.command(Command.COM_STMT_EXECUTE, head[1:5] + b"\0\1\0\0\0")
        return int.from_bytes(row(packets)[2:], "little")  # behind a header and a bitmap of NULLs

    return read


def row(packets: list[tuple[int, bytes]]) -> bytes:
    (found,) = [payload for _, payload in packets[2:] if payload[0] not in (0xFE, 0xFF, 0x03)][:1]
    return found


def serving(running: RunningProxy, cluster: Cluster, reads: int) -> tuple[RealServer, RealServer]:
    """The replica that answered the last read, and the other one; so many have gone to replicas."""
    server = of_reads(running, reads)[-1]["server"]
    (here,) = [replica for replica in cluster.replicas if replica.address == server]
    (other,) = [replica for replica in cluster.replicas if replica is not here]
    return here, other


def of_reads(running: RunningProxy, count: int) -> list[dict[str, object]]:
    """The records of all reads so far, which are so many, without those of COM_STMT_PREPARE."""

    def found() -> list[dict[str, object]]:
        reads = [record for record in running.records() if record["class"] == "read"]
        return [record for record in reads if record["command"] != "COM_STMT_PREPARE"]

    eventually(lambda: len(found()) >= count)
    return found()


@pytest.mark.parametrize("way", [by_text, prepared])
@pytest.mark.parametrize("capabilities", CLIENTS.values(), ids=CLIENTS)
def test_a_read_never_goes_back_behind_what_was_seen(
    cluster: Cluster,
    proxy: StartProxy,
    capabilities: Capability,
    way: Callable[[RawClient], Callable[[], int]],
) -> None:
    """One replica stands still, the other goes on, shows what it has, and goes away."""
    cluster.primary.query("CREATE TABLE IF NOT EXISTS app.seen (id INT PRIMARY KEY, n INT)")
    cluster.primary.query("REPLACE INTO app.seen VALUES (1, 0)")
    cluster.wait_caught_up()
    key = cluster.scratch.path / "token-keys-of-monotonic-reads"
    key.write_text("0123456789abcdef0123456789abcdef\n")
    key.chmod(0o600)
    running = proxy(monitor_interval="200ms", token_key_file=str(key))
    with session(running, capabilities) as client:
        read = way(client)
        for _ in range(4):
            assert read() == 0
        # The primary is asked what bounds all that was seen, so it is no more than that. From which
        # server the next read is answered counts again.
        client.query("SELECT @@tidegate_token")
        assert read() == 0
        here, other = serving(running, cluster, 5)
        with other.applier_stopped():
            for number in range(1, 6):
                cluster.primary.query("UPDATE app.seen SET n = n + 1 WHERE id = 1")
                newest = cluster.primary.gtid_executed
                assert here.value("SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, 10)", newest) == "0"
                assert [read() for _ in range(3)] == [number] * 3
            last = of_reads(running, 20)
            assert {record["server"] for record in last} == {here.address}
            here.query("SET GLOBAL offline_mode = ON")
            try:
                eventually(lambda: not running.metric("tidegate_server_up", server=here.address))
                # From the primary: the other replica is behind.
                assert [read() for _ in range(3)] == [5] * 3
            finally:
                here.query("SET GLOBAL offline_mode = OFF")
        cluster.wait_caught_up()
        assert [read() for _ in range(3)] == [5] * 3
    judge(of_reads(running, 26), tracked=bool(capabilities & Capability.CLIENT_DEPRECATE_EOF))


def judge(records: list[dict[str, object]], *, tracked: bool) -> None:
    """Each read on a replica had to see what those before it had shown, and its proof says so."""
    shown = GtidSet()
    for record in records:
        assert record["level"] == "MONOTONIC_READS"
        if record["role"] == "primary":
            continue
        assert record["proof"] in ("known", "waited")
        required, proved = (GtidSet.parse(str(record[name])) for name in ("required", "proof_set"))
        assert shown <= required <= proved
        observed = GtidSet.parse(str(record["observed"]))
        assert bool(observed) == tracked
        shown |= observed
