"""Run small applications on common frameworks, by the recipes of docs/applications.md.

Each is fetched by pip or npm into .cache/clients, and run at a real primary with two replicas, once
as they are and once one second late, through Tidegate with its defaults; recipes are run directly,
too. A recipe has to bring 90% of the reads to replicas that are not late, and no page may lack what
was written before it.
"""

from __future__ import annotations

import argparse
import sys

from tests.applications.recipes import recipes
from tests.applications.runs import Seen, run, table
from tests.clients.suite import PASSWORD, USER
from tests.real_mysql.cluster import Cluster, find_mysqld
from tests.real_mysql.template import NO_MYSQLD

_SHARE = 0.9


def main() -> int:
    """Run them all and print a table; 1 if a recipe does not do what the page says."""
    parser = argparse.ArgumentParser(prog="python -m tests.applications", description=__doc__)
    parser.add_argument("framework", nargs="*", help="all without it")
    chosen = parser.parse_args().framework
    mysqld = find_mysqld()
    if mysqld is None:
        parser.error(NO_MYSQLD)
    seen: list[Seen] = []
    with Cluster(mysqld) as cluster:
        cluster.primary.query(f"CREATE USER {USER}@'%' IDENTIFIED BY '{PASSWORD}'")
        cluster.primary.query(f"GRANT ALL ON *.* TO {USER}@'%'")
        try:
            for recipe in recipes():
                if not chosen or recipe.framework in chosen:
                    for lateness in (None, 0, 1) if recipe.is_recommended else (0, 1):
                        seen.append(run(cluster, recipe, lateness))
                        text = f"{recipe.framework}, {recipe.title}, {seen[-1].where}"
                        print(f"{text}: {seen[-1].share:.0%}", flush=True)
        finally:
            print(table(seen))  # of those that ran, be it that one fails
    wrong = [run for run in seen if run.stale or (_must(run) and run.share < _SHARE)]
    sys.stderr.writelines(f"{run.recipe.framework}, {run.recipe.title}: wrong\n" for run in wrong)
    return 1 if wrong else 0


def _must(run: Seen) -> bool:
    return run.recipe.is_recommended and run.lateness == 0


if __name__ == "__main__":
    sys.exit(main())
