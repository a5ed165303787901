"""Global variables that differ between servers are seen while the proxy runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.real_mysql.cluster import Cluster
from tests.real_mysql.conftest import StartProxy
from tests.support.waiting import eventually

FAMILY = "tidegate_replica_differences"


@pytest.fixture
def changed(cluster: Cluster) -> Iterator[None]:
    """A replica with three variables of its own."""
    replica = cluster.replicas[0]
    names = ("ft_boolean_syntax", "group_concat_max_len", "div_precision_increment")
    (before,) = replica.query(f"SELECT {', '.join(f'@@GLOBAL.{name}' for name in names)}")
    replica.query("SET GLOBAL ft_boolean_syntax = '| -><()~*:\"\"&^'")
    replica.query("SET GLOBAL group_concat_max_len = 17, GLOBAL div_precision_increment = 7")
    try:
        yield
    finally:
        syntax, *numbers = before
        replica.query(f"SET GLOBAL ft_boolean_syntax = '{syntax}'")
        for name, number in zip(names[1:], numbers, strict=True):
            replica.query(f"SET GLOBAL {name} = {number}")


@pytest.mark.usefixtures("changed")
def test_what_differs_is_counted_and_logged(cluster: Cluster, proxy: StartProxy) -> None:
    running = proxy()
    replica, *others = cluster.replicas

    def count(address: str, carried: str) -> float:
        return running.metric(FAMILY, server=address, carried=carried)

    eventually(lambda: count(replica.address, "yes") == 2)
    assert count(replica.address, "no") == 1
    for other in others:
        eventually(lambda other=other: count(other.address, "yes") == 0)  # type: ignore[misc]
        assert count(other.address, "no") == 0
    assert "ft_boolean_syntax is '| -><()~*:" in running.stderr
    assert "told the primary's: div_precision_increment, group_concat_max_len" in running.stderr
