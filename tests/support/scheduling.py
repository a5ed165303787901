"""Which process of several runs a test, and when."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain

import pytest
from xdist.scheduler import LoadFileScheduling

from tests.support.services import services

SPARK = "tests/spark_jobs/"
AUDITS = "tests/spark_jobs/test_"
"""Files of whole audits; those in folders are of parts."""


class Files(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """A file's tests run in one process, in which they share fixtures; those of Spark in two.

    Else each process would start a JVM, and warm it up. One alone would be the last to end.
    """

    def _split_scope(self, nodeid: str) -> str:
        for group in (AUDITS, SPARK):
            if nodeid.startswith(group):
                return group
        return str(super()._split_scope(nodeid))


def ordered(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Begin with files that take long: those of Spark, then those of a real server, or `early`.

    The rest is short, so that no process is left alone with a long file in the end.
    """
    files = defaultdict(list)
    for item in items:
        files[item.path].append(item)
    return list(chain.from_iterable(sorted(files.values(), key=_rank)))


def _rank(file: Sequence[pytest.Item]) -> int:
    needed = set().union(*(services(item) for item in file))
    early = any(item.get_closest_marker("early") for item in file)
    return 0 if "spark" in needed else 1 if needed or early else 2
