"""Files are run whole, long ones first, and Spark's in two processes."""

from pathlib import Path

import pytest

from tests.support.scheduling import Files, ordered
from tests.support.services import services


def of_spark() -> None:
    """Stands for a test."""


@pytest.fixture
def items(request: pytest.FixtureRequest) -> list[pytest.Item]:
    """A file that needs nothing, one of a server, an early one, one of Spark; the first again."""

    def item(file: str, marker: str | None = None) -> pytest.Item:
        made = pytest.Function.from_parent(request.node.parent, name="of_spark", callobj=of_spark)
        made.path = Path(file)
        if marker:
            made.add_marker(marker)
        return made

    return [
        *(item("plain.py"), item("server.py", "real_mysql"), item("server.py")),
        *(item("waits.py", "early"), item("waits.py")),
        *(item("spark.py"), item("spark.py", "spark"), item("plain.py")),
    ]


def test_what_takes_long_begins_first(items: list[pytest.Item]) -> None:
    assert services(items[6]) == {"spark"}
    names = [item.path.stem for item in ordered(items)]
    assert names[::2] == names[1::2] == ["spark", "server", "waits", "plain"]


def test_two_processes_have_the_tests_of_spark() -> None:
    split = object.__new__(Files)._split_scope
    assert split("tests/spark_jobs/records/test_take.py::test_a") == "tests/spark_jobs/"
    assert split("tests/spark_jobs/reads/test_judge.py::test_b") == "tests/spark_jobs/"
    assert split("tests/spark_jobs/test_days.py::test_d") == "tests/spark_jobs/test_"
    assert split("tests/spark_jobs/test_live.py::test_e") == "tests/spark_jobs/test_"
    assert split("tests/proxy/test_tls.py::test_c[1]") == "tests/proxy/test_tls.py"
