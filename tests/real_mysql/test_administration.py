"""What operators see and do, before real servers: the texts of digests, drains, sessions."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import re
import signal
from typing import Any

import pymysql
import pytest
from pymysql.cursors import Cursor, DictCursor

from routing.sql.classifier import Classifier
from routing.sql.digest_text import digest_text
from routing.sql.lexer import MODE_UTF8
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.real_mysql.running_proxy import RunningProxy
from tests.real_mysql.template import APP_USER
from tests.real_mysql.test_kept_primary import worker_pids
from tests.support.waiting import eventually

TOKEN = "0123456789abcdef0123456789abcdef"
COUNT = "SELECT COUNT(*) FROM app.administered"


@pytest.fixture(scope="module", autouse=True)
def _table(cluster: Cluster, _empty_schema: None) -> None:
    cluster.primary.query("CREATE TABLE app.administered (id INT PRIMARY KEY)")
    cluster.wait_caught_up()


# Digests.

LITERALS = [
    "1",
    "'a'",
    '"it\'s"',
    "x'ff'",
    "0xff",
    "b'01'",
    "1.5e-3",
    "-1",
    "- 2",
    "NULL",
    "'a' 'b'",
]
OF_LISTS = [
    "SELECT id FROM administered WHERE id IN {0}",
    "INSERT INTO administered VALUES {0}",
    "INSERT INTO administered VALUES {0}, {0}",
]
LISTS = ["(1)", "(1, 2)", "('a', 2, 0xff)"]
TEMPLATES = [
    "SELECT {0}",
    "select  {0} -- comment\n",
    "SELECT /* c */ id FROM administered WHERE id = {0} LIMIT 1",
    "SELECT id FROM `administered` WHERE id BETWEEN {0} AND {1}",
    "UPDATE administered SET id = {0} WHERE id <> {1}",
    "SELECT COUNT(*) FROM administered WHERE id > {0} GROUP BY id",
]


def server_text(cursor: Cursor, sql: str) -> str:
    cursor.execute("SELECT STATEMENT_DIGEST_TEXT(%s)", (sql,))
    row = cursor.fetchone()
    assert row is not None
    return str(row[0])


def own_text(sql: str) -> str | None:
    text = sql.encode()
    return digest_text(text, MODE_UTF8, Classifier().classify(text, MODE_UTF8).digest)


DIFFERENCES = [
    ("`", ""),  # a server writes all names so
    (" /* , ... */", ""),  # and that there were several rows
    ("<>", "!="),
    # It takes a sign, and NULL, for part of the literal, and looks for x'' without a blank.
    (r"\b[xb] \?", "?"),
    (r"- \?", "?"),
    ("null", "?"),
    (r"values \(\?\)", "values (...)"),  # one value is one digest with several
]


def comparable(text: str | None) -> str:
    """Without what differs on purpose."""
    found = (text or "").lower()
    for theirs, ours in DIFFERENCES:
        found = re.sub(theirs if "\\" in theirs else re.escape(theirs), ours, found)
    return found


@pytest.mark.deep
def test_texts_are_those_of_a_server(cluster: Cluster) -> None:
    pairs = list(itertools.pairwise(LITERALS))
    texts = [template.format(a, b) for template in TEMPLATES for a, b in pairs]
    texts += [template.format(values) for template in OF_LISTS for values in LISTS]
    differ = {}
    replica = cluster.replicas[1]
    replica.restart("--max-digest-length=1024")  # the next test finds it as it was
    with replica.admin("app") as connection, connection.cursor() as cursor:
        for sql in texts:
            server, own = server_text(cursor, sql), own_text(sql)
            if comparable(server) != comparable(own):
                differ[sql] = (server, own)
    assert differ == {}, json.dumps(differ, indent=1)


# Sessions and servers, over SQL and HTTP.


@pytest.fixture
def administered(proxy: StartProxy, tmp_path: Any) -> RunningProxy:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    running = proxy(workers="2", admins=APP_USER, admin_token_file=str(token), wait_budget="3s")
    eventually(lambda: request(running, "GET", "/v1/sessions")[1]["notes"] == [])
    return running


def rows(running: RunningProxy, sql: str) -> list[dict[str, Any]]:
    with running.connect() as connection, connection.cursor(DictCursor) as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


def state(running: RunningProxy, name: str) -> str:
    (row,) = [row for row in rows(running, "SHOW TIDEGATE SERVERS") if row["server"] == name]
    return str(row["state"])


def request(running: RunningProxy, method: str, path: str) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", running._metrics_port, timeout=30)
    connection.request(method, path, headers={"Authorization": f"Bearer {TOKEN}"})
    response = connection.getresponse()
    return response.status, json.loads(response.read())


def test_a_drain_counts_in_all_workers_and_in_one_that_is_started_again(
    administered: RunningProxy, cluster: Cluster
) -> None:
    replica = cluster.replicas[0]
    rows(administered, f"TIDEGATE DRAIN SERVER '{replica.address}'")
    eventually(lambda: state(administered, replica.address) == "drained")
    for pid in worker_pids(administered):
        os.kill(pid, signal.SIGKILL)
        eventually(lambda pid=pid: pid not in worker_pids(administered))  # type: ignore[misc]
        eventually(lambda: len(worker_pids(administered)) == 2)
    eventually(lambda: request(administered, "GET", "/v1/sessions")[1]["notes"] == [])
    for _ in range(6):
        with administered.connect() as connection, connection.cursor(DictCursor) as cursor:
            cursor.execute(COUNT)
            cursor.execute("SHOW TIDEGATE LAST")
            last = cursor.fetchone()
            assert last is not None
            assert last["server"] != replica.address
    status, body = request(administered, "POST", f"/v1/servers/{replica.address}/undrain")
    assert (status, body["undrain"][0]["server"]) == (200, replica.address)
    assert state(administered, replica.address) == "up"


def test_what_a_session_has_set_does_not_matter(
    administered: RunningProxy, cluster: Cluster
) -> None:
    replica = cluster.replicas[0].address
    with administered.connect() as connection, connection.cursor(DictCursor) as cursor:
        for setting in (
            "SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'",
            "SET collation_connection = utf32_general_ci",
            "SET sql_select_limit = 1",
            "SET autocommit = 0",
            "START TRANSACTION READ ONLY",
            "SET max_execution_time = 1",
        ):
            cursor.execute(setting)
        cursor.execute("SHOW TIDEGATE SERVERS")
        assert len(cursor.fetchall()) == len(cluster.servers)
        cursor.execute(f'TIDEGATE DRAIN SERVER "{replica}"')
        row = cursor.fetchone()
        assert row is not None
        assert row["server"] == replica
        cursor.execute(f"TIDEGATE UNDRAIN SERVER `{replica}`")
        cursor.execute("SHOW TIDEGATE SESSIONS")
        assert [row["user"] for row in cursor.fetchall()] == [APP_USER]
        cursor.execute("SHOW TIDEGATE DIGESTS")
        assert cursor.fetchall()


def test_a_session_is_ended_over_http(administered: RunningProxy, cluster: Cluster) -> None:
    with administered.connect() as victim, victim.cursor() as cursor:
        cursor.execute("SELECT CONNECTION_ID()")
        row = cursor.fetchone()
        assert row is not None
        shown = request(administered, "GET", "/v1/sessions")[1]["sessions"]
        assert [session["id"] for session in shown] == [row[0]]
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO app.administered VALUES (77)")
        assert request(administered, "DELETE", f"/v1/sessions/{row[0]}")[0] == 200
        with pytest.raises(pymysql.err.OperationalError):
            cursor.execute("COMMIT")
        path = f"/v1/sessions/{row[0]}"
        eventually(lambda: request(administered, "DELETE", path)[0] == 404)
    assert cluster.primary.value("SELECT COUNT(*) FROM app.administered WHERE id = 77") == "0"
