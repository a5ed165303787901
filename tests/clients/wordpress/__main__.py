"""Run WordPress at a real MySQL whose replicas are one second late, directly and through Tidegate.

An author installs it, logs in, and publishes, edits, comments on and deletes posts; behind each
step others look for it at once, and every page opens a connection of its own. This is done at the
primary; through Tidegate with the settings of docs/web-applications.md; and with scope
`connection`, where a connection sees only its own writes. There pages must be stale, or nothing
would be proved.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.clients.wordpress.runs import Seen, run, table, ways
from tests.clients.wordpress.site import prepare
from tests.real_mysql.cluster import Cluster, find_mysqld
from tests.real_mysql.template import NO_MYSQLD


def main() -> int:
    """Run it all and print a table; 1 if some run did not end as it has to."""
    parser = argparse.ArgumentParser(prog="python -m tests.clients.wordpress", description=__doc__)
    parser.add_argument("--posts", type=int, default=20, help="how many are written (default 20)")
    posts = parser.parse_args().posts
    mysqld = find_mysqld()
    if mysqld is None:
        parser.error(NO_MYSQLD)
    prepare()
    ended: list[Seen] = []
    with Cluster(mysqld) as cluster:
        for way in ways():
            began = time.monotonic()
            ended.append(run(cluster, way, posts))
            print(f"{way.name}: {time.monotonic() - began:.0f} s", flush=True)
    print(table(ended))
    wrong = [f"{seen.way.name}: {seen.wrong}" for seen in ended if seen.wrong]
    sys.stderr.writelines(f"{line}\n" for line in wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
