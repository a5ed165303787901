"""Options and settings for every test."""

import os
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

from scripts import compile_in_place

if not compile_in_place.fresh():
    # Before any module of the project is loaded: what was compiled from older sources must not run.
    os.environ["TIDEGATE_PURE"] = "1"


# A test that is slow on a busy machine is not wrong.
_patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("usual", _patient)
settings.register_profile("deep", _patient, max_examples=2_000)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--deep", action="store_true", help="run the slow suites too")


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("deep" if config.getoption("--deep") else "usual")


def pytest_report_header() -> str:
    import protocol

    if protocol.compiled():
        return "tidegate: compiled modules"
    if not compile_in_place.fresh() and compile_in_place.binaries():
        return "tidegate: plain Python (the compiled modules are out of date: ./dev install)"
    return "tidegate: plain Python"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    import protocol

    elsewhere = set() if config.getoption("--deep") else {"deep"}
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
    needs = {"cluster", "mysqld", "spark"}.intersection(getattr(item, "fixturenames", ()))
    if report.skipped and needs and os.environ.get("TIDEGATE_REQUIRE_ALL") == "1":
        report.outcome = "failed"
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
        report.longrepr = f"TIDEGATE_REQUIRE_ALL=1, but {reason}"
    return report
