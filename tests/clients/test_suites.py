"""Each suite ends through Tidegate as it ends directly, but for what is explained."""

from collections.abc import Iterator

import pytest

from tests.clients.run import SUITES, run
from tests.clients.suite_servers import SuiteServers, suite_servers
from tests.real_mysql.required_mysqld import required_mysqld
from tests.support.services import needs


@pytest.fixture(scope="module")
@needs("real_mysql")
def servers() -> Iterator[SuiteServers]:
    required_mysqld()
    with suite_servers() as started:
        yield started


@pytest.mark.deep
@pytest.mark.real_mysql
@pytest.mark.timeout(4 * 3600)  # each suite has a limit of its own
@pytest.mark.parametrize("name", SUITES)
def test_suite(servers: SuiteServers, name: str) -> None:
    suite = SUITES[name]
    suite.prepare()
    comparison = run(servers, suite)
    assert comparison.direct.count("passed")
    assert not comparison.unexplained, comparison.text
