"""Packets, commands and the login, as MySQL 9.7 was measured to answer them."""

import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pymysql
import pytest

from mysql_mocker.server.cluster import Cluster
from mysql_mocker.server.listening import Listening
from mysql_mocker.server.server import Server
from protocol.command import ComQuery
from protocol.constants import MAX_PACKET_PAYLOAD, Capability, FieldType
from protocol.packet import frame
from protocol.parameter import QueryAttribute
from protocol.response import EofPacket
from tests.mysql_mocker.raw_client import TRACKING, RawClient
from tests.real_mysql.certificates import write_certificates
from tests.support.background_cluster import BackgroundCluster

Connect = Callable[..., RawClient]
ERROR_UNKNOWN_COMMAND = 1047


def test_sequence_ids_are_checked(client: RawClient) -> None:
    client.send(b"\x0e", sequence_id=5)
    (reply,) = client.replies()
    assert reply.error.code == 1156
    with pytest.raises(ConnectionError):
        client.command(b"\x0e")


@pytest.mark.parametrize("command", [0x00, 0x05, 0x07, 0x0A, 0x0C, 0x14, 0x1D, 0x55])
def test_unknown_commands(client: RawClient, command: int) -> None:
    (reply,) = client.command(bytes((command, 1, 0)))
    assert reply.error.code == ERROR_UNKNOWN_COMMAND
    assert client.command(b"\x0e")[0].ok


def test_an_empty_packet_is_no_command(client: RawClient) -> None:
    assert client.command(b"")[0].error.code == ERROR_UNKNOWN_COMMAND


def test_a_malformed_packet_is_an_error(client: RawClient) -> None:
    assert client.command(b"\x1b\x00")[0].error.code == 1835
    assert client.value("SELECT 1") == "1"


def test_empty_queries(client: RawClient) -> None:
    assert client.reply("").error.code == 1065
    assert client.reply(" ; ").error.code == 1065
    assert client.reply("-- nothing").ok.status == 2


def test_set_option_turns_multi_statements_off_and_on(client: RawClient) -> None:
    (reply,) = client.command(b"\x1b\x01\x00")
    assert reply.ok.header == 0xFE
    assert client.query("SELECT 1; SELECT 2")[0].error.code == 1064
    client.command(b"\x1b\x00\x00")
    assert len(client.query("SELECT 1; SELECT 2")) == 2
    assert client.command(b"\x1b\x05\x00")[0].error.code == ERROR_UNKNOWN_COMMAND


def test_multi_statements_must_be_negotiated(connect: Connect) -> None:
    assert connect(flags=TRACKING).query("SELECT 1; SELECT 2")[0].error.code == 1064


def test_statistics_is_a_bare_string(client: RawClient) -> None:
    client.send(b"\x09")
    assert client.read_packet_anew().startswith(b"Uptime: ")


def test_older_clients_get_eof_packets(connect: Connect) -> None:
    client = connect(flags=0)
    reply = client.reply("SELECT 1 UNION SELECT 2")
    assert isinstance(reply.end, EofPacket)
    assert len(reply.rows) == 2
    assert isinstance(client.command(b"\x1b\x00\x00")[0].end, EofPacket)


def test_query_attributes_are_read_over(connect: Connect) -> None:
    client = connect(flags=TRACKING | Capability.CLIENT_QUERY_ATTRIBUTES)
    attribute = QueryAttribute("trace", FieldType.MYSQL_TYPE_VAR_STRING, b"abc")
    for attributes in ((), (attribute,)):
        payload = ComQuery(b"SELECT 7", attributes).serialise(query_attributes=True)
        assert client.command(payload)[0].rows == [[b"7"]]


def test_column_definitions_can_be_left_out(connect: Connect) -> None:
    client = connect(flags=TRACKING | Capability.CLIENT_OPTIONAL_RESULTSET_METADATA)
    client.send(b"\x03SELECT 1")
    assert client.read_packet_anew() == b"\x01\x01"
    for _ in range(3):
        client.read_packet()
    client.query("SET resultset_metadata = NONE")
    client.send(b"\x03SELECT 1")
    assert [client.read_packet_anew(), client.read_packet()] == [b"\x01\x00", b"\x011"]


@pytest.mark.not_fast
@pytest.mark.parametrize("size", [MAX_PACKET_PAYLOAD - 1, MAX_PACKET_PAYLOAD, 1 << 25])
def test_packets_of_many_frames(client: RawClient, size: int) -> None:
    head = b"\x03SELECT '"
    text = b"x" * (size - len(head) - 1)
    reply = client.command(head + text + b"'")[0]
    assert reply.rows == [[text]]


def test_commands_sent_back_to_back_are_answered_in_turn(client: RawClient) -> None:
    client.query("CREATE TABLE t (n INT)")
    client.send_bytes(
        frame(b"\x03INSERT INTO t VALUES (1)", 0)
        + frame(b"\x03SELECT SLEEP(0.01)", 0)
        + frame(b"\x03SELECT n FROM t", 0)
    )
    client.replies()
    client.replies()
    assert client.replies()[0].rows == [[b"1"]]


def test_init_db(client: RawClient) -> None:
    client.query("CREATE DATABASE other")
    assert client.command(b"\x02other")[0].ok
    assert client.value("SELECT DATABASE()") == "other"
    assert client.command(b"\x02nowhere")[0].error.code == 1049


def test_field_list_still_works(client: RawClient) -> None:
    client.query("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))")
    client.send(b"\x04t\0")
    assert b"\x02id" in client.read_packet_anew()
    assert b"\x01v" in client.read_packet()
    assert client.read_packet()[0] == 0xFE


# The login.


def log_in(server: Server, **options: object) -> None:
    settings = {"user": "demo", "password": "demo", "ssl_disabled": True, **options}
    pymysql.connect(host="127.0.0.1", port=server.port, **settings).close()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("user", "password"), [("demo", "wrong"), ("demo", ""), ("nobody", "x"), ("unknown", "demo")]
)
def test_wrong_passwords(primary: Server, user: str, password: str) -> None:
    log_in(primary)
    for _ in range(2):  # before and after the first good login of the account
        with pytest.raises(pymysql.err.OperationalError) as refused:
            log_in(primary, user=user, password=password)
        assert refused.value.args[0] == 1045
        if user == "nobody":
            log_in(primary, user=user, password="")


def test_the_second_login_is_the_fast_one(mocker: BackgroundCluster, primary: Server) -> None:
    log_in(primary)
    assert mocker.call(lambda: "demo" in primary.password_cache)
    log_in(primary)
    with RawClient(primary.port) as client:
        client.query("FLUSH PRIVILEGES")
    assert not mocker.call(lambda: primary.password_cache)
    log_in(primary)


def test_other_plugins_are_switched(primary: Server) -> None:
    connection = pymysql.connect(
        host="127.0.0.1", port=primary.port, user="demo", password="demo", defer_connect=True,
        ssl_disabled=True,
    )  # fmt: skip
    connection._auth_plugin_name = "mysql_native_password"  # type: ignore[attr-defined]
    connection.connect()
    connection.close()


def test_unknown_schema(primary: Server) -> None:
    with pytest.raises(pymysql.err.OperationalError) as refused:
        log_in(primary, database="nowhere")
    assert refused.value.args[0] == 1049


def test_change_user(client: RawClient) -> None:
    client.query("SET @mine = 1")
    client.query("CREATE TEMPORARY TABLE t (n INT)")
    # An empty password, the account without one, a schema.
    client.send(b"\x11nobody\0\0test\0\xff\0caching_sha2_password\0")
    request = client.read_packet_anew()
    assert request[0] == 0xFE
    client.send(b"\0", sequence_id=2)
    (reply,) = client.replies(sequence_id=3)
    assert reply.ok.session_state == b"\x01\x05\x04test"
    assert client.value("SELECT CURRENT_USER()") == "nobody@%"
    assert client.value("SELECT @mine") is None
    assert client.reply("SELECT * FROM t").error.code == 1146


@pytest.fixture
def tls_cluster(tmp_path: Path) -> Iterator[BackgroundCluster]:
    write_certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server-cert.pem", tmp_path / "server-key.pem")
    accounts = {"demo": "demo"}
    with BackgroundCluster(
        lambda: Cluster(replicas=0, accounts=accounts, listening=Listening(ssl_context=context))
    ) as running:
        yield running


def test_tls(tls_cluster: BackgroundCluster, tmp_path: Path) -> None:
    primary = tls_cluster.cluster.primary
    for _ in range(2):
        connection = pymysql.connect(
            host="127.0.0.1", port=primary.port, user="demo", password="demo", database="test",
            ssl={"ca": str(tmp_path / "ca.pem")},
        )  # fmt: skip
        with connection.cursor() as cursor:
            cursor.execute("SELECT %s", ("x" * 200_000,))
            assert cursor.fetchone() == ("x" * 200_000,)
        assert isinstance(connection._sock, ssl.SSLSocket)  # type: ignore[attr-defined]
        connection.close()
    with pytest.raises(pymysql.err.OperationalError):
        log_in(primary, password="wrong", ssl={"verify_mode": False}, ssl_disabled=False)
