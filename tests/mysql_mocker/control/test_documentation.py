"""What docs/mocker.md shows is run, and what there is it names."""

import argparse
import http.client
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pymysql.connections import Connection

from mysql_mocker import BlockingCluster
from mysql_mocker.control.faults import FIELDS
from mysql_mocker.control.settings import SETTINGS
from proxy import cli
from tests.mysql_mocker.control.conftest import Connect, run

ROOT = Path(__file__).resolve().parents[3]
pytest_plugins = ["pytester"]

PAGE = (ROOT / "docs/mocker.md").read_text()


def examples(language: str) -> list[str]:
    found = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    # Here the package stands beside `tidegate`, in a wheel below it.
    return [example.replace("tidegate.mysql_mocker", "mysql_mocker") for example in found]


def is_test(example: str) -> bool:
    return "pytest" in example or "def test_" in example


def is_program(example: str) -> bool:
    """Whether it needs nothing but itself: no other server is named."""
    return not is_test(example) and "db1" not in example


@pytest.mark.parametrize("program", [e for e in examples("python") if is_program(e)])
def test_programs(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    expected = re.findall(r"print\(error\)  # (.+)", program)
    assert done.stdout.splitlines()[-len(expected) :] == expected if expected else done.stdout


def test_tests(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    plugin, *tests = [
        code for code in examples("python") if "pytest" in code or "def test_" in code
    ]
    pytester.makeconftest(plugin)
    pytester.makepyfile("\n\n".join(tests))
    done = pytester.runpytest_subprocess("--strict-markers", "-p", "no:cacheprovider")
    done.assert_outcomes(passed="\n".join(tests).count("def test_"))


def write(cluster: BlockingCluster, client: "Connection[Any]") -> None:
    """Three transactions that a promotion can lose."""
    cluster.set("replicas", applying=False)
    for n in range(3):
        run(client, "INSERT INTO t VALUES (%s)", n)


def test_calls(cluster: BlockingCluster, connect: Connect) -> None:
    waits, script = [example for example in examples("sql") if "mock." in example]
    writer, client = connect("primary"), connect("replica1")
    calls = script.strip().splitlines()
    for call in calls:
        if "promote" in call:
            write(cluster, writer)
        run(client, call)
    assert (len(calls), cluster.primary.name) == (9, "replica1")
    for call in waits.strip().splitlines():
        run(client, call)
    assert cluster.server("primary").settings["semi_sync"] == "after_sync"


def test_requests(cluster: BlockingCluster, connect: Connect) -> None:
    (script,) = [example for example in examples("sh") if "curl" in example]
    writer = connect()
    for line in script.strip().splitlines():
        _, _, method, url, *body = shlex.split(line)
        if url.endswith("promote"):
            cluster.clear()
            write(cluster, writer)
        address = cluster.url.removeprefix("http://")
        connection = http.client.HTTPConnection(address, timeout=20)
        connection.request(method, url.removeprefix("127.0.0.1:8080"), *body[1:])
        answer = connection.getresponse()
        assert answer.status in (200, 201), answer.read()
        connection.close()
    assert cluster.primary.name == "replica1"


def test_everything_is_named() -> None:
    for name in (*SETTINGS, *FIELDS):
        assert f"`{name}`" in PAGE
    (commands,) = [
        action for action in cli.make_parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    ]  # fmt: skip
    for action in commands.choices["mock"]._actions:
        if action.dest != "help":
            assert f"`{action.option_strings[0]}" in PAGE
