import pytest

from benchmarks.workload import WorkloadError, parse_mysqlslap, parse_sysbench

STATISTICS = """
SQL statistics:
    queries performed:
        read:                            103509
        total:                           103509
    transactions:                        103509 (34463.44 per sec.)
    queries:                             103509 (34463.44 per sec.)

General statistics:
    total time:                          3.0031s
    total number of events:              103509
"""


def test_sysbench_point_select() -> None:
    load = parse_sysbench(
        """Latency histogram (values are in milliseconds)
       value  ------------- distribution ------------- count
       0.040 |*                                        23
       0.042 |**************************************** 1055
       0.042 |                                         2
      12.301 |                                         1
"""
        + STATISTICS
    )
    assert load.queries == 103509
    assert load.seconds == 3.0031
    assert load.latencies is not None
    assert load.latencies.counts == {40.0: 23, 42.0: 1057, 12301.0: 1}
    assert load.reads == 0


def test_write_read_counts_only_what_its_threads_say() -> None:
    load = parse_sysbench(
        "write_read reads=3 stale=1 microseconds=460:2,470:1\n"
        "write_read reads=2 stale=0 microseconds=460:2\n"
        "       0.850 |****                                     5\n" + STATISTICS
    )
    assert (load.reads, load.stale) == (5, 1)
    assert load.latencies is not None
    assert sorted(load.latencies.counts.values()) == [1, 4]
    assert load.latencies.percentile(50) == pytest.approx(1.01**460.5, rel=0.01)


def test_an_error_is_told() -> None:
    with pytest.raises(WorkloadError, match="errno = 1290"):
        parse_sysbench("FATAL: `thread_run' failed: SQL error, errno = 1290\nnonsense\n")


def test_mysqlslap() -> None:
    assert parse_mysqlslap(",mixed,4.225,4.225,4.225,8,3000\n") == 4.225
    with pytest.raises(WorkloadError, match="Access denied"):
        parse_mysqlslap("mysqlslap: Error when connecting to server: Access denied\n")
