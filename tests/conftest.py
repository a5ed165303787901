"""Options and settings for every test."""

import gc
import logging
import os
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from scripts import compile_in_place
from tests.support import rewriting, scheduling, shared_tls_context
from tests.support.services import SERVICES, hide, services

if "PYTEST_XDIST_WORKER" not in os.environ and not compile_in_place.fresh():
    # Before any module of the project is loaded: what was compiled from older sources must not run.
    # One of several processes has the variable from the one that started it.
    os.environ["TIDEGATE_PURE"] = "1"


TESTS = Path(__file__).parent
REAL_MYSQL = TESTS / "real_mysql"

# A test that is slow on a busy machine is not wrong.
_patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("usual", _patient)
settings.register_profile("deep", _patient, max_examples=2_000)
settings.register_profile("fast", _patient, max_examples=30)  # of the usual 100


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--deep", action="store_true", help="run the slow suites too")
    parser.addoption(
        "--plain", action="store_true", help="run what is worth a run on plain modules, too"
    )
    parser.addoption(
        "--fast", action="store_true", help="leave out MySQL's server, Spark, and what is not_fast"
    )


def pytest_configure(config: pytest.Config) -> None:
    shared_tls_context.install()
    settings.load_profile("deep" if config.getoption("--deep") else "usual")
    if config.getoption("--fast") or config.getoption("--plain"):
        settings.load_profile("fast")
    if config.getoption("--fast"):
        hide()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With --fast, do not even load the tests of a folder that all need a server."""
    return True if config.getoption("--fast") and collection_path == REAL_MYSQL else None


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect without the garbage collector, and leave the tests out of what it looks at later.

    They are hundreds of thousands of objects that stay until the end: to look at them all, again
    and again while they become more, takes a third of the time in which they are collected.
    """
    gc.disable()
    try:
        fast = session.config.getoption("--fast")
        rewriting.load_share(session.config, [REAL_MYSQL] if fast else [])
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, object, object]:
    """Fail a test that leaves another log level: later ones would see records of other modules."""
    root = logging.getLogger()
    result = yield
    left = root.level
    root.setLevel(logging.WARNING)
    assert left == logging.WARNING, f"the root logger was left at {logging.getLevelName(left)}"
    return result


def pytest_report_header() -> str:
    import protocol

    if protocol.compiled():
        return "tidegate: compiled modules"
    if compile_in_place.binaries() and not compile_in_place.fresh():
        return "tidegate: plain Python (the compiled modules are out of date: ./dev install)"
    return "tidegate: plain Python"


def pytest_itemcollected(item: pytest.Item) -> None:
    for service in services(item):
        item.add_marker(service)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    import protocol

    elsewhere = set() if config.getoption("--deep") else {"deep"}
    if config.getoption("--fast"):
        elsewhere |= {*SERVICES, "not_fast"}
    if protocol.compiled():
        elsewhere.add("plain")
    plain = config.getoption("--plain")
    left, wanted = [], []
    for item in items:
        out = elsewhere.intersection(item.keywords) or (plain and not _is_plain(item))
        (left if out else wanted).append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = wanted
    if hasattr(config, "workerinput"):  # one of several processes
        items[:] = scheduling.ordered(items)


def _is_plain(item: pytest.Item) -> bool:
    """Whether a test is run on plain modules, too: one of the lower packages, or marked so."""
    if item.get_closest_marker("not_plain") is not None:
        return False
    folder = item.path.relative_to(TESTS).parts[0]
    return folder in ("protocol", "routing") or item.get_closest_marker("plain") is not None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object | None:
    """With --dist loadfile, give all tests of Spark to one process."""
    if config.getoption("dist") != "loadfile":
        return None
    return scheduling.Files(config, log)


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
