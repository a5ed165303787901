"""What to do about GTID sets that grow."""

from spark_jobs.report.advice import advise
from spark_jobs.tables.row import Row


def grown(what: str = "executed", role: str = "replica", **columns: object) -> Row:
    plain: dict[str, object] = {"what": what, "role": role, "server": f"{role}:3306", "hour_us": 0}
    sizes = {"sets": 1, "sources": 1, "tags": 0, "intervals": 1, "bytes": 42}
    return Row(plain | sizes | columns)


def test_short_sets_need_nothing() -> None:
    assert advise([]) == []
    assert advise([grown(), grown(role="primary"), grown("required", "")]) == []


def test_gaps_of_a_replica_are_its_own() -> None:
    hours = [grown(), grown(intervals=5000, hour_us=1), grown(role="primary", intervals=3)]
    (told,) = advise(hours)
    assert told.startswith(
        "replica:3306 went from 1 to 5,000 intervals, and its primary has no more than 3: it skips"
    )
    assert "replica_preserve_commit_order=ON" in told


def test_gaps_of_the_primary_stay() -> None:
    told = advise([grown(intervals=5000), grown(role="primary", intervals=5000)])
    assert len(told) == 2
    assert all("stay for ever" in sentence for sentence in told)


def test_tags_servers_and_requirements() -> None:
    first, second = advise([grown(tags=20, sources=10)])
    assert "has 20 tags" in first
    assert "GTIDs of 10 servers" in second
    (told,) = advise([grown("required", "", bytes=100_000)])
    assert "up to 100,000 bytes" in told
