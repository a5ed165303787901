"""Options and settings for every test."""

import os
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

from scripts import compile_in_place
from tests.support.services import SERVICES, hide, services

if not compile_in_place.fresh():
    # Before any module of the project is loaded: what was compiled from older sources must not run.
    os.environ["TIDEGATE_PURE"] = "1"


# A test that is slow on a busy machine is not wrong.
_patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("usual", _patient)
settings.register_profile("deep", _patient, max_examples=2_000)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--deep", action="store_true", help="run the slow suites too")
    parser.addoption("--fast", action="store_true", help="leave out MySQL's server and Spark")


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("deep" if config.getoption("--deep") else "usual")
    if config.getoption("--fast"):
        hide()


def pytest_report_header() -> str:
    import protocol

    if protocol.compiled():
        return "tidegate: compiled modules"
    if not compile_in_place.fresh() and compile_in_place.binaries():
        return "tidegate: plain Python (the compiled modules are out of date: ./dev install)"
    return "tidegate: plain Python"


def pytest_itemcollected(item: pytest.Item) -> None:
    for service in services(item):
        item.add_marker(service)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    import protocol

    elsewhere = set() if config.getoption("--deep") else {"deep"}
    if config.getoption("--fast"):
        elsewhere |= SERVICES
    if protocol.compiled():
        elsewhere.add("plain")
    left = [item for item in items if elsewhere.intersection(item.keywords)]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if not elsewhere.intersection(item.keywords)]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With TIDEGATE_REQUIRE_ALL=1, fail what would be skipped for want of mysqld or Java."""
    report = yield
    if report.skipped and services(item) and os.environ.get("TIDEGATE_REQUIRE_ALL") == "1":
        report.outcome = "failed"
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
        report.longrepr = f"TIDEGATE_REQUIRE_ALL=1, but {reason}"
    return report
