"""Run drivers' own test suites at a real MySQL, directly and through Tidegate, and compare.

Each suite is fetched by pip, npm or apt, from where this machine's configuration says, into
.cache/clients; interpreters that are missing are installed by apt. A primary and two replicas are
started, and `tidegate run` before them: READ_OWN_WRITES for each connection, the narrowest scope. A
suite runs twice, and every test that ends otherwise through Tidegate is told. What the suites
print is in .cache/clients/results.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.clients import (
    aiomysql,
    command_lines,
    django,
    go,
    java,
    languages,
    maintenance,
    mysqlclient,
    mysqltest,
    node,
    perl,
    php,
    pymysql,
    report,
    ruby,
    sqlalchemy,
)
from tests.clients.results import RESULTS, Comparison, Results
from tests.clients.suite import Suite
from tests.clients.suite_servers import SuiteServers, suite_servers

SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        pymysql.SUITE,
        pymysql.AUTOCOMMIT,
        mysqlclient.SUITE,
        mysqlclient.AUTOCOMMIT,
        aiomysql.SUITE,
        aiomysql.USER_SCOPE,
        sqlalchemy.SUITE,
        sqlalchemy.AUTOCOMMIT,
        django.SUITE,
        node.MYSQL2,
        node.MARIADB,
        java.SUITE,
        go.SUITE,
        ruby.SUITE,
        perl.MYSQL,
        perl.MARIADB,
        php.MYSQLI,
        php.PDO,
        languages.SUITE,
        command_lines.SUITE,
        maintenance.SUITE,
        mysqltest.SUITE,
    )
}
TARGETS = ("direct", "tidegate")


def run(servers: SuiteServers, suite: Suite, targets: tuple[str, ...] = TARGETS) -> Comparison:
    """Run a prepared suite and compare; for a target that is left out its last results count."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    for target in targets:
        began = time.monotonic()
        with (RESULTS / f"{suite.name}-{target}.txt").open("w") as output:
            results = servers.run(suite, target, output)
        results.write(RESULTS / f"{suite.name}-{target}.jsonl")
        took = time.monotonic() - began
        print(
            f"{suite.name}, {target}: {results.count('passed')} of {len(results.tests)} passed"
            f" ({took:.0f} s)",
            flush=True,
        )
    return last(suite)


def last(suite: Suite) -> Comparison:
    """Compare the last results of a suite.

    Raises:
        FileNotFoundError: it has not been run.
    """
    direct, tidegate = (
        Results.read(RESULTS / f"{suite.name}-{target}.jsonl") for target in TARGETS
    )
    return Comparison(direct, tidegate, suite.known)


def main() -> int:
    """Run what the command line names; 1 if a test fails only through Tidegate, unexplained."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.clients.run",
        description=__doc__,
        epilog="Exit status: 1 if a test passes directly and not through Tidegate, unless a reason"
        " is known (it stands in the suite's file), else 0.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "suites",
        nargs="*",
        metavar="SUITE",
        help=f"which to run (default: all): {', '.join(SUITES)}",
    )
    parser.add_argument(
        "--only",
        choices=TARGETS,
        help="run at this target only, and compare with the other's results of last time",
    )
    parser.add_argument(
        "--write",
        action="store_true",
        help=f"write the results to {report.PAGE.name}, which keeps those of other suites",
    )
    options = parser.parse_args()
    if unknown := set(options.suites) - set(SUITES):
        parser.error(f"no such suite: {', '.join(sorted(unknown))}")
    unexplained = 0
    with suite_servers() as servers:
        for name in options.suites or SUITES:
            suite = SUITES[name]
            print(f"{name}: preparing", flush=True)
            suite.prepare()
            comparison = run(servers, suite, (options.only,) if options.only else TARGETS)
            print(comparison.text, end="", flush=True)
            unexplained += len(comparison.unexplained)
            if options.write:
                today = time.strftime("%Y-%m-%d")
                report.write([*SUITES.values()], {name: comparison}, servers.server, today)
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
