"""WordPress shows what was just done, with the settings that are given for web applications."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.config import load
from tests.clients.wordpress.runs import Seen, Way, run, ways
from tests.clients.wordpress.site import prepare
from tests.real_mysql.cluster import Cluster
from tests.real_mysql.required_mysqld import required_mysqld
from tests.support.services import needs

WAYS = ways()
GOOD, PROVED = Way("Tidegate", ""), Way("Tidegate", "", stale=True)


@pytest.mark.parametrize("settings", [way.settings for way in WAYS if way.settings])
def test_settings_for_web_applications_are_taken(settings: str, tmp_path: Path) -> None:
    file = tmp_path / "tidegate.toml"
    file.write_text(settings)
    load(file, {"primary": ["db1"], "replicas": ["db2"]})


def test_a_stale_page_counts_where_none_may_be_and_is_needed_where_some_must() -> None:
    assert Seen(GOOD, 9, ["the front page"], [], 9, 3).wrong
    assert Seen(GOOD, 9, [], ["WordPress database error"], 9, 3).wrong
    assert Seen(GOOD, 9, [], [], 9, 0).wrong
    assert Seen(PROVED, 9, [], [], 9, 3).wrong
    assert Seen(GOOD, 9, [], [], 9, 3).wrong is None
    assert Seen(PROVED, 9, ["the front page"], [], 9, 3).wrong is None


@pytest.fixture(scope="module")
@needs("real_mysql")
def cluster() -> Iterator[Cluster]:
    mysqld = required_mysqld()
    prepare()
    with Cluster(mysqld) as running:
        yield running


@pytest.mark.deep
@pytest.mark.real_mysql
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("way", WAYS, ids=[way.name for way in WAYS])
def test_pages_show_what_was_just_done(cluster: Cluster, way: Way) -> None:
    assert run(cluster, way, posts=2).wrong is None
