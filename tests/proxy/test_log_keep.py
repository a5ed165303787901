import pytest

from proxy.config.log_keep import LogKeep


@pytest.mark.parametrize(
    ("raw", "keep"),
    [
        ("all", LogKeep()),
        (" ALL ", LogKeep()),
        ("30d", LogKeep(age=30 * 86_400.0)),
        ("1.5 h", LogKeep(age=5400.0)),
        ("90s", LogKeep(age=90.0)),
        ("100G", LogKeep(size=100 << 30)),
        ("64 MiB", LogKeep(size=64 << 20)),
        ("2TB", LogKeep(size=2 << 40)),
        ("30d,100G", LogKeep(30 * 86_400.0, 100 << 30)),
        (["100G", "30d"], LogKeep(30 * 86_400.0, 100 << 30)),
    ],
)
def test_what_is_kept(raw: object, keep: LogKeep) -> None:
    assert LogKeep.read(raw) == keep
    assert LogKeep.read(str(keep)) == keep


@pytest.mark.parametrize(
    "raw",
    [
        *("", "0d", "0G", "-1d", "30", "5m", "5g", "10K", "1d,2d", "1G,2G", "1d 2G", "all,1d"),
        *(7, True, [], [7], ["all", "1d"], "٣d", "9" * 30 + "d"),
    ],
)
def test_what_cannot_be_told_is_refused(raw: object) -> None:
    with pytest.raises(ValueError, match='want "all", an age such as "30d"'):
        LogKeep.read(raw)
