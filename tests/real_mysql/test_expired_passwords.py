"""A user whose password has expired, through Tidegate as on a direct connection."""

from __future__ import annotations

import asyncio
import os
import subprocess
from contextlib import suppress

import pytest

from protocol.constants import Capability, Command
from protocol.response_stream import PREPARED, SIMPLE, STRING
from tests.faults.client import MODERN, Client, change_user, finish_change
from tests.faults.compressed_client import CompressedClient
from tests.faults.proxy_fixture import eventually
from tests.real_mysql.cluster import Cluster, find_mysqld
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.raw_client import Packet, RawClient
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.template import APP_PASSWORD, APP_USER

USER, OLD, NEW = "forgetful", "old-secret", "new-secret"
CAN = Capability.CLIENT_CAN_HANDLE_EXPIRED_PASSWORDS


@pytest.fixture(autouse=True)
def _expired(cluster: Cluster) -> None:
    expire(cluster)


def expire(cluster: Cluster) -> None:
    cluster.primary.query(f"DROP USER IF EXISTS {USER}")
    cluster.primary.query(f"CREATE USER {USER} IDENTIFIED BY '{OLD}' PASSWORD EXPIRE")
    cluster.primary.query(f"GRANT ALL ON app.* TO {USER}")


COMMANDS = (
    *((Command.COM_PING, b"", SIMPLE), (Command.COM_INIT_DB, b"app", SIMPLE)),
    *((Command.COM_RESET_CONNECTION, b"", SIMPLE), (Command.COM_DEBUG, b"", SIMPLE)),
    *((Command.COM_STATISTICS, b"", STRING), (Command.COM_STMT_RESET, b"\7\0\0\0", SIMPLE)),
    (Command.COM_STMT_PREPARE, b"SELECT ? + 1", PREPARED),
)
REFUSED = (
    *(
        "SELECT 1",
        "SELECT @@version",
        "SET @a = 1",
        "SET NAMES utf8mb4",
        "BEGIN",
        "COMMIT",
        "USE app",
    ),
    *("SELECT $$", "CREATE TABLE app.t (id INT)", "SET autocommit = 0", "SET @a = 1; SELECT 2"),
)


def script(address: str, capabilities: Capability, change: str) -> list[list[Packet]]:
    """What a client is told from its login to its first statements with a new password."""
    with RawClient(address, USER, OLD, capabilities | CAN, database="app") as client:
        answers = [[(0, client.login)]]
        answers += [client.query(sql) for sql in REFUSED]
        answers += [client.command(*command) for command in COMMANDS]
        client.send(b"\5\0\0\0\x19\1\0\0\0")  # COM_STMT_CLOSE
        answers.append(client.query(change))
        answers += [
            client.query(sql) for sql in ("SELECT 1", "SET @a = 3", "SELECT @a, DATABASE()")
        ]
        return answers


@pytest.mark.parametrize(
    "change",
    [
        f"ALTER USER USER() IDENTIFIED BY '{NEW}'",
        f"SET PASSWORD = '{NEW}'",
        f"ALTER USER USER() IDENTIFIED BY '{NEW}'; SELECT 7",
    ],
)
@pytest.mark.parametrize(
    "capabilities",
    [
        Capability.CLIENT_DEPRECATE_EOF | Capability.CLIENT_SESSION_TRACK,
        Capability.CLIENT_DEPRECATE_EOF,
        Capability(0),
    ],
    ids=["modern", "untracked", "old"],
)
def test_a_client_is_told_what_the_server_says(
    proxy: StartProxy, cluster: Cluster, capabilities: Capability, change: str
) -> None:
    direct = script(cluster.primary.address, capabilities, change)
    expire(cluster)
    assert script(proxy().address, capabilities, change) == direct


@pytest.mark.parametrize("server_compression", ["off", "zlib"])
def test_the_session_goes_on_like_any_other(
    proxy: StartProxy, cluster: Cluster, server_compression: str
) -> None:
    running = proxy(server_compression=server_compression)
    with RawClient(running.address, USER, OLD, MODERN | CAN, database="app") as client:
        client.query(f"ALTER USER USER() IDENTIFIED BY '{NEW}'")
        client.query("DROP TABLE IF EXISTS forgotten")
        client.query("CREATE TABLE forgotten (id INT PRIMARY KEY)")
        for n in range(20):
            assert client.query(f"REPLACE forgotten SET id = {n}")[-1][1][0] == 0
            rows = client.query("SELECT COUNT(*) FROM forgotten")
            assert rows[2][1] == bytes((len(str(n + 1)),)) + str(n + 1).encode()
    records = running.records(at_least=42)
    writes = [record["own_gtids"] for record in records if record["class"] == "write"]
    assert len(writes) == 22
    assert all(writes), "GTIDs are tracked"
    with running.connect(USER, NEW) as again, again.cursor() as cursor:
        cursor.execute("SELECT 1")


def execution(client: RawClient, statement: int) -> list[Packet]:
    body = statement.to_bytes(4, "little") + b"\0\1\0\0\0"
    return client.command(Command.COM_STMT_EXECUTE, body)


def prepared_script(address: str) -> list[list[Packet]]:
    """What a client is told that goes on with statements which it prepared before the change."""
    with RawClient(address, USER, OLD, MODERN | CAN, database="app") as client:
        answers = [
            client.command(Command.COM_STMT_PREPARE, sql.encode(), PREPARED)
            for sql in ("SELECT 7", f"ALTER USER USER() IDENTIFIED BY '{NEW}'")
        ]
        answers += [execution(client, 2), execution(client, 1)]
        answers.append(client.command(Command.COM_STMT_PREPARE, b"SELECT 8", PREPARED))
        answers += [execution(client, 3), execution(client, 1)]
        client.send(b"\5\0\0\0\x19\1\0\0\0")  # COM_STMT_CLOSE
        return [*answers, execution(client, 3)]


def test_what_was_prepared_before_goes_by_no_id_of_what_is_prepared_later(
    proxy: StartProxy, cluster: Cluster
) -> None:
    direct = prepared_script(cluster.primary.address)
    expire(cluster)
    assert prepared_script(proxy().address) == direct


def test_what_follows_a_new_password_in_one_text_is_not_known(
    proxy: StartProxy, cluster: Cluster
) -> None:
    cluster.primary.query("CREATE TABLE app.hidden SELECT 1 AS id")
    cluster.wait_caught_up()
    with RawClient(proxy().address, USER, OLD, MODERN | CAN, database="app") as client:
        client.query(
            f"ALTER USER USER() IDENTIFIED BY '{OLD}'; CREATE TEMPORARY TABLE hidden (id INT)"
        )  # replicas let the session in, since the password is what it was
        for _ in range(3):  # behind the first one it is known what must be seen
            assert client.query("SELECT COUNT(*) FROM hidden")[2][1] == b"\x010"


def test_without_the_capability_the_login_is_refused(proxy: StartProxy, cluster: Cluster) -> None:
    errors = []
    for address in (proxy().address, cluster.primary.address):
        with pytest.raises(ConnectionRefusedError) as error:
            RawClient(address, USER, OLD, MODERN)
        errors.append(str(error.value))
    assert errors[0] == errors[1]
    assert "1862" in errors[0]


def test_change_user_into_the_sandbox_and_out(proxy: StartProxy, cluster: Cluster) -> None:
    async def story(port: int) -> list[bytes]:
        async with await Client.connect(port) as client:
            await client.log_in(APP_USER, APP_PASSWORD, "app", MODERN | CAN)
            await client.query("SELECT GET_LOCK('forgotten', 0)")
            client.send(change_user(USER, "app"))
            packets = [await finish_change(client, OLD)]
            packets += (await client.query("SELECT 1")).packets
            other = cluster.primary.connect()
            with other, other.cursor() as cursor:
                cursor.execute("SELECT GET_LOCK('forgotten', 20)")
                assert cursor.fetchall() == ((1,),), "what the user before had is gone"
            packets += (await client.query(f"ALTER USER USER() IDENTIFIED BY '{NEW}'")).packets
            packets += (await client.query("SELECT USER() LIKE 'forgetful%', DATABASE()")).packets
            return packets

    direct = asyncio.run(story(cluster.primary.port))
    expire(cluster)
    assert asyncio.run(story(proxy().port)) == direct


@pytest.mark.parametrize("algorithm", ["zlib", "zstd"])
def test_the_sandbox_over_compression(proxy: StartProxy, algorithm: str) -> None:
    async def story(port: int) -> None:
        flag = {
            "zlib": Capability.CLIENT_COMPRESS,
            "zstd": Capability.CLIENT_ZSTD_COMPRESSION_ALGORITHM,
        }[algorithm]
        async with await CompressedClient.connect(port) as client:
            await client.log_in(USER, OLD, "app", MODERN | CAN | flag, zstd_level=3)
            client.begin()
            assert (await client.query("SELECT 1")).error.code == 1820
            await client.query(f"ALTER USER USER() IDENTIFIED BY '{NEW}'")
            assert (await client.query("SELECT REPEAT('x', 1000)")).value == b"x" * 1000

    asyncio.run(story(proxy().port))


def test_a_client_or_a_server_leaves_the_sandbox(proxy: StartProxy, cluster: Cluster) -> None:
    def threads() -> int:
        return int(
            cluster.primary.value(
                "SELECT COUNT(*) FROM performance_schema.processlist WHERE USER = %s", USER
            )
        )

    async def story(running: RunningProxy) -> None:
        for leave in ("abort", "quit", "kill", "garbage"):
            async with await Client.connect(running.port) as client:
                await client.log_in(USER, OLD, "app", MODERN | CAN)
                assert (await client.query("SELECT 1")).error.code == 1820
                assert threads() == 1
                if leave == "abort":
                    client.abort()
                elif leave == "quit":
                    client.send(bytes((Command.COM_QUIT,)))
                elif leave == "kill":
                    assert client.greeting is not None
                    with suppress(Exception):
                        cluster.primary.query(f"KILL {client.greeting.thread_id}")
                else:
                    client.send(b"\x03SELECT 1", 9)
                    assert (await client.read_error()).code == 1156
                await client.rest()
                await eventually(lambda: threads() == 0)

    asyncio.run(story(proxy()))


def test_mysql_client(proxy: StartProxy) -> None:
    mysqld = find_mysqld()
    assert mysqld is not None
    program = mysqld.with_name("mysql")
    if not program.exists():
        pytest.skip("no mysql client beside mysqld")
    done = subprocess.run(
        [
            *(str(program), "-h127.0.0.1", f"-P{proxy().port}", f"-u{USER}", "-N", "-B", "app"),
            *("--connect-expired-password", "-e"),
            f"ALTER USER USER() IDENTIFIED BY '{NEW}'; SELECT 5",
        ],
        env={**os.environ, "MYSQL_PWD": OLD},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "5\n"), done.stderr
