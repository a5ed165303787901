"""`tidegate mock`, as people and scripts run it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pymysql
import pytest

from proxy.cli import main
from tests.mysql_mocker.control.conftest import run
from tests.support.waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[3]


def python(*words: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, *words], env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_the_servers_are_and_ends_well(tmp_path: Path, end: int) -> None:
    init, ready = tmp_path / "init.sql", tmp_path / "ready.json"
    init.write_text("CREATE TABLE t (n INT);\n-- one row\nINSERT INTO t VALUES (7);\n")
    process = python(
        "-m", "tidegate", "mock", "--replicas", "1", "--lag", "300ms", "--http", "0", "--tls",
        "--user", "shop", "--password", "secret", "--schema", "shop", "--schema", "other",
        "--init", str(init), "--ready-file", str(ready),
    )  # fmt: skip
    try:
        assert process.stdout is not None
        lines = [line.split() for line in iter(process.stdout.readline, "ready\n")]
        found = dict(lines)
        assert list(found) == ["primary", "replica1", "http"]
        assert json.loads(ready.read_text()) == found
        for name in ("primary", "replica1"):
            host, _, port = found[name].rpartition(":")
            with pymysql.connect(
                host=host, port=int(port), user="shop", password="secret", database="shop",
                ssl_verify_cert=False, ssl_verify_identity=False, ssl={"check_hostname": False},
            ) as client:  # fmt: skip
                assert run(client, "SELECT n FROM t") == [(7,)]
                assert client._secure
                assert "300ms" in run(client, "CALL mock.state()")[1]
        process.send_signal(end)
        assert process.wait(PATIENCE_S) == 0
        assert not ready.exists()
        assert process.stderr is not None
        assert process.stderr.read() == ""
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (["--lag", "soon"], 2, "mock: lag: want a duration such as '300ms'"),
        (["--replicas", "-1"], 2, "mock: replicas: want from 0 to 100"),
        (
            ["--replicas", "two"],
            2,
            "--replicas: invalid int value: 'two'; see tidegate mock --help",
        ),
        (["--http", "no"], 2, "mock: http: want a whole number"),
        (["--init", "nowhere.sql"], 2, "mock: nowhere.sql: No such file or directory"),
        (["--lagg", "1s"], 2, "--lagg: not understood; see tidegate mock --help"),
        (["--host", "192.0.2.1"], 1, "192.0.2.1"),
        (["--http", "192.0.2.1:0"], 1, "the HTTP interface cannot listen on 192.0.2.1:0"),
        (["--replicas", "0", "--ready-file", "/nowhere/f"], 1, "/nowhere/.f.unready: No such file"),
    ],
)
def test_errors_are_one_line(
    capsys: pytest.CaptureFixture[str], words: list[str], status: int, sentence: str
) -> None:
    assert main(["mock", *words]) == status
    error = capsys.readouterr().err
    assert error.startswith("tidegate: ")
    assert sentence in error
    assert error.count("\n") == 1


def test_a_script_that_fails_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "init.sql"
    script.write_text("CREATE TABLE t (n INT); INSERT INTO t VALUES (1, 2)")
    assert main(["mock", "--init", str(script)]) == 2
    assert "init: Column count" in capsys.readouterr().err
    script.write_bytes(b"\xff")
    assert main(["mock", "--init", str(script)]) == 2
    assert "not UTF-8" in capsys.readouterr().err


def test_without_its_sql_parser_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['sqlglot'] = None\nfrom proxy.cli import main\n"
    process = python("-c", code + "sys.exit(main(['mock']))")
    _, error = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, error) == (
        2, "tidegate: mock needs sqlglot (pip install 'tidegate[mock]')\n",
    )  # fmt: skip
    process = python("-c", code + "from mysql_mocker import MockCluster")
    _, error = process.communicate(timeout=PATIENCE_S)
    assert error.endswith("ImportError: the mocker needs sqlglot: pip install 'tidegate[mock]'\n")
