"""The fixture, in a test run of its own."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

pytest_plugins = ["pytester"]


def test_each_test_has_a_cluster_of_its_own(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeconftest('pytest_plugins = ["mysql_mocker.pytest_plugin"]')
    pytester.makepyfile(
        """
        import pymysql
        import pytest

        def connect(server):
            return pymysql.connect(
                host=server.host, port=server.port, user="root", database="test", autocommit=True
            )

        @pytest.mark.parametrize("run", [1, 2])
        def test_default(mysql_cluster, run):
            with connect(mysql_cluster.primary) as client, client.cursor() as cursor:
                cursor.execute("CREATE TABLE t (n INT)")
            mysql_cluster.caught_up()
            assert len(mysql_cluster.replicas) == 2

        @pytest.mark.mysql_cluster(replicas=1, lag="1h", init="CREATE TABLE t (n INT)")
        def test_marked(mysql_cluster):
            with connect(mysql_cluster.primary) as client, client.cursor() as cursor:
                cursor.execute("INSERT INTO t VALUES (1)")
            with connect(mysql_cluster.replicas[0]) as client, client.cursor() as cursor:
                cursor.execute("SELECT * FROM t")
                assert cursor.fetchall() == ()
        """
    )
    done = pytester.runpytest_subprocess("--strict-markers", "-p", "no:cacheprovider")
    done.assert_outcomes(passed=3)


def test_tests_without_it_load_no_sql_parser(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeconftest('pytest_plugins = ["mysql_mocker.pytest_plugin"]')
    pytester.makepyfile(
        "import sys\n"
        "def test_nothing_is_loaded():\n"
        "    loaded = [name for name in sys.modules if name.startswith('mysql_mocker.')]\n"
        "    assert loaded == ['mysql_mocker.pytest_plugin']\n"
        "    assert 'sqlglot' not in sys.modules\n"
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)
