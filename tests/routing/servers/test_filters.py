"""What a replica lacks because of filters, although it has the GTIDs."""

from routing.servers.filters import Filters


def filters(applier: str | None = "", binary_log: str | None = "") -> Filters:
    made = Filters()
    made.applier, made.binary_log = applier, binary_log
    return made


def test_nothing_is_lacking_without_filters() -> None:
    replica = filters()
    assert replica.judge(filters()) == ""
    assert not replica.is_refused
    assert replica.text == "none"


def test_what_is_not_known_is_not_lacking() -> None:
    replica = Filters()
    assert replica.text is None
    assert replica.judge(Filters()) == ""
    assert not replica.is_refused
    replica.applier = ""
    assert replica.text == "others are not known"


def test_a_cause_is_told_once() -> None:
    replica = filters("REPLICATE_DO_DB = a")
    primary = filters("REPLICATE_DO_DB = z", "binlog_ignore_db = b")
    assert replica.judge(primary) == "REPLICATE_DO_DB = a; binlog_ignore_db = b"
    assert replica.is_refused
    assert replica.judge(primary) == ""
    assert replica.is_refused
    assert replica.text is not None
    assert replica.text.startswith("REPLICATE_DO_DB = a; lacks")


def test_its_own_binary_log_takes_nothing_from_a_replica() -> None:
    replica = filters("", "binlog_ignore_db = mysql")
    assert replica.judge(filters()) == ""
    assert not replica.is_refused


def test_what_was_left_out_is_lacking_until_the_replica_is_made_anew() -> None:
    replica, primary = filters("REPLICATE_DO_DB = a"), filters()
    replica.judge(primary)
    replica.on_rebuilt()
    replica.judge(primary)
    replica.applier = ""
    replica.judge(primary)
    assert replica.is_refused, "it was made anew under the filter"
    replica.on_rebuilt()
    assert replica.is_refused, "until somebody has looked"
    replica.applier = None
    replica.judge(primary)
    assert replica.is_refused, "nobody knows if it has filters"
    replica.applier = ""
    primary.binary_log = "binlog_do_db = a"
    assert replica.judge(primary) == ""
    primary.binary_log = ""
    replica.judge(primary)
    assert replica.is_refused
    replica.on_rebuilt()
    replica.judge(primary)
    assert not replica.is_refused
    replica.applier = "REPLICATE_DO_DB = a"
    assert replica.judge(primary) == "REPLICATE_DO_DB = a", "that is news"


def test_what_is_lacking_may_be_allowed() -> None:
    replica = filters("REPLICATE_DO_DB = a")
    replica.allowed = True
    assert replica.judge(filters())
    assert replica.lacking
    assert not replica.is_refused
