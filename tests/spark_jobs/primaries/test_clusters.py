"""Proxies before different servers are told apart, also where one names no primary."""

import pytest

pytest.importorskip("pyspark")

from spark_jobs.primaries.clusters import group

PRIMARY, REPLICA = "primary", "replica"


def test_proxies_that_name_one_server_are_of_one_cluster() -> None:
    named = [("a", "p1", PRIMARY), ("b", "p2", PRIMARY), ("c", "r1", REPLICA), ("a", "r1", REPLICA)]
    assert group(named) == ({"a": "a", "b": "b", "c": "a"}, frozenset())
    # Two that had nothing in common are joined by a third.
    assert group([*named, ("d", "p2", REPLICA), ("d", "r1", REPLICA)])[0] == dict.fromkeys(
        "abcd", "a"
    )


def test_a_proxy_that_names_no_primary_does_not_make_all_clusters_one() -> None:
    named = [("a", "p1", PRIMARY), ("b", "p2", PRIMARY), ("c", None, None), ("d", "r9", REPLICA)]
    clusters = {name: name for name in "abcd"}
    assert group(named) == (clusters, frozenset("cd"))


def test_where_nobody_names_a_primary_there_is_nothing_to_confuse() -> None:
    assert group([("a", "r1", REPLICA), ("b", None, None)]) == ({"a": "a", "b": "b"}, frozenset())
    assert group([]) == ({}, frozenset())
