"""All of it can be done by HTTP, by programs and not by web pages."""

import http.client
import json
import socket
import struct
import threading
from typing import Any

import pytest

from mysql_mocker import BlockingCluster, MockCluster
from mysql_mocker.control.http_interface import MOST_BODY, may_be_called
from tests.mysql_mocker.control.conftest import Connect, comes_to, run
from tests.support.waiting import until

Answer = tuple[int, dict[str, Any]]


def address(cluster: BlockingCluster) -> tuple[str, int]:
    host, _, port = cluster.url.removeprefix("http://").rpartition(":")
    return host, int(port)


def ask(
    cluster: BlockingCluster, method: str, path: str, body: object = None, **headers: str
) -> Answer:
    connection = http.client.HTTPConnection(*address(cluster), timeout=20)
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, data, named)
    answer = connection.getresponse()
    assert answer.headers["Content-Type"] == "application/json"
    found = json.loads(answer.read() or "{}")
    connection.close()
    return answer.status, found


def test_the_first_page_lists_the_servers(cluster: BlockingCluster) -> None:
    status, found = ask(cluster, "GET", "/")
    assert status == 200
    first, *others = found["servers"]
    assert (first["name"], first["role"], first["lag"]) == ("primary", "primary", None)
    assert first["port"] == cluster.primary.port
    assert [server["name"] for server in others] == ["replica1", "replica2"]
    assert ask(cluster, "GET", "/servers/replica1?pretty=1") == (200, others[0])


def test_settings_change_one_server_or_a_group(cluster: BlockingCluster, connect: Connect) -> None:
    status, found = ask(cluster, "PATCH", "/servers/replica1", {"lag": "1h", "applying": False})
    assert (status, found["lag"], found["applying"]) == (200, "3600s", False)
    status, found = ask(cluster, "PATCH", "/servers/replicas", {"lag": 2})
    assert [server["lag"] for server in found["servers"]] == [None, "2s", "2s"]
    assert ask(cluster, "POST", "/reset")[1]["servers"][1]["lag"] == "0s"
    run(connect(), "INSERT INTO t VALUES (1)")
    comes_to(connect("replica1"), 2)


def test_faults_come_and_go(cluster: BlockingCluster, connect: Connect) -> None:
    status, fault = ask(cluster, "POST", "/servers/primary/faults", {"error": 1040, "times": 3})
    assert (status, fault["message"]) == (201, "Too many connections")
    assert ask(cluster, "GET", "/servers/primary/faults")[1] == {"faults": [fault]}
    assert ask(cluster, "DELETE", f"/servers/primary/faults/{fault['id']}") == (200, {})
    assert ask(cluster, "DELETE", f"/servers/primary/faults/{fault['id']}")[0] == 404
    ask(cluster, "POST", "/servers/primary/faults", {"drop": "before", "match": "SELECT 7"})
    assert ask(cluster, "DELETE", "/servers/all/faults")[0] == 200
    assert run(connect(), "SELECT 7") == [(7,)]


def test_a_promotion_connections_and_statements(cluster: BlockingCluster, connect: Connect) -> None:
    run(connect("replica1"), "SELECT 'here'")
    assert "SELECT 'here'" in ask(cluster, "GET", "/servers/replica1/statements")[1]["statements"]
    assert ask(cluster, "POST", "/servers/replica1/disconnect") == (200, {"disconnected": 1})
    answer = ask(cluster, "POST", "/promote", {"server": "replica1"})
    assert answer == (200, {"primary": "replica1", "stopped": []})
    run(connect("replica1"), "INSERT INTO t VALUES (1)")
    comes_to(connect("primary"), 2)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "sentence"),
    [
        ("GET", "/nothing", None, 404, "there is no /nothing; there are /, /servers"),
        ("GET", "/servers/replica3", None, 404, "the servers are primary, replica1, replica2"),
        ("PATCH", "/servers/replica3", {"lag": 1}, 404, "no server 'replica3'"),
        ("PUT", "/servers/replica1", {"lag": 1}, 405, "knows GET, PATCH, not PUT"),
        ("PATCH", "/servers/replica1", {"delay": 1}, 400, "no setting 'delay'"),
        ("PATCH", "/servers/replica1", {"lag": [1]}, 400, "lag: want a duration"),
        ("PATCH", "/servers/replica1", {"self": 1, "server": 2}, 400, "no setting 'self'"),
        ("PATCH", "/servers/primary", {"lag": 1}, 409, "only replicas have lag"),
        ("PATCH", "/servers/replica1", [1], 400, "want an object"),
        ("PATCH", "/servers/replica1", b'{"lag": ', 400, "not JSON"),
        ("PATCH", "/servers/replica1", b"\xff", 400, "not JSON"),
        ("PATCH", "/servers/replica1", b"[" * MOST_BODY, 400, "not JSON"),
        ("PATCH", "/servers/replica1", b" " * (MOST_BODY + 1), 413, "at most"),
        ("POST", "/servers/primary/faults", {"error": 1213, "drop": "before"}, 400, "one of error"),
        ("POST", "/promote", {}, 400, "server: want the name of a replica"),
        ("POST", "/promote", {"server": "primary"}, 409, "primary is not a running replica"),
        ("POST", "/promote", {"server": "replica1", "lost": 1}, 400, "lost: unknown name"),
        ("POST", "/reset", {"what": "all"}, 400, "what: unknown name"),
    ],
)
def test_errors_say_what_to_do(
    untouched: BlockingCluster, method: str, path: str, body: object, status: int, sentence: str
) -> None:
    before = untouched.state()
    answer = ask(untouched, method, path, body)
    assert (answer[0], list(answer[1])) == (status, ["error"])
    assert sentence in answer[1]["error"]
    assert untouched.state() == before


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "attacker.example"}, {"Host": "attacker.example:8080"},
        {"Host": "127.0.0.1.nip.io"},
        {"Host": ""}, {"Origin": "http://attacker.example"}, {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "same-site"},
    ],
)  # fmt: skip
def test_web_pages_are_refused(untouched: BlockingCluster, headers: dict[str, str]) -> None:
    for method, path, body in (
        ("PATCH", "/servers/replica1", {"lag": "1h"}),
        ("POST", "/promote", {"server": "replica1"}),
        ("GET", "/", None),
        ("OPTIONS", "/servers/replica1", None),
    ):
        before = untouched.state()
        assert ask(untouched, method, path, body, **headers)[0] == 403
        assert untouched.state() == before


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1:1", "[::1]", "[::1]:8080",
                                  "10.0.0.7:8080", "mock:8080", "test_mock-1"])  # fmt: skip
def test_programs_may_call(host: str) -> None:
    assert may_be_called(host)


@pytest.mark.parametrize("host", ["", ":80", "a.b", "a.", "localhost.", "a b", "mock:", "mock:x",
                                  "::1", "[mock.example]", "a@b", "mock:80:80",
                                  "1.2.3"])  # fmt: skip
def test_other_names_may_not(host: str) -> None:
    assert not may_be_called(host)


@pytest.mark.parametrize(
    "request_",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
        b"POST /reset HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /reset HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"GET http://attacker.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"BREW / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    ],
)
def test_broken_requests_are_answered_and_end_the_connection(
    untouched: BlockingCluster, request_: bytes
) -> None:
    with socket.create_connection(address(untouched), timeout=20) as connection:
        connection.sendall(request_)
        answer = b""
        while data := connection.recv(4096):
            answer += data
    assert b" 200 " not in answer
    assert untouched.state()


def test_who_leaves_in_the_midst_makes_no_noise(
    cluster: BlockingCluster, capfd: pytest.CaptureFixture[str]
) -> None:
    def serving() -> bool:
        return any("process_request" in thread.name for thread in threading.enumerate())

    connection = socket.create_connection(address(cluster))
    connection.sendall(b"GET / HTTP/1.1\r\nHost: ")
    until(serving, "it is read from")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
    until(lambda: not serving(), "it was noticed")
    assert capfd.readouterr().err == ""
    assert ask(cluster, "GET", "/")[0] == 200


def test_one_connection_serves_many_requests(cluster: BlockingCluster) -> None:
    connection = http.client.HTTPConnection(*address(cluster), timeout=20)
    for _ in range(3):
        connection.request("GET", "/servers/primary")
        assert json.loads(connection.getresponse().read())["name"] == "primary"
    connection.close()


def test_there_is_none_unless_it_is_asked_for() -> None:
    with MockCluster(replicas=0) as cluster:
        assert cluster.url == ""
    with MockCluster(replicas=0, http="127.0.0.1:0") as cluster:
        gone = address(cluster)
        assert ask(cluster, "GET", "/")[0] == 200
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(gone)
