"""A counter-example as a picture."""

from spark_jobs.report import timeline
from spark_jobs.tables.row import Row
from spark_jobs.verdict import Finding
from tests.spark_jobs.found import GTID, read, scene


def steps(line: timeline.Timeline) -> list[tuple[str, str, str]]:
    return [(line.offset(step), step.lane, step.text) for step in line.steps]


STORY = [
    scene("wrote", digest="00aa"),
    scene("before", server="r1:3306", ended_us=1_001_000, gtids=f"{GTID}:1-6", proof="probed"),
    scene("after", server="r1:3306", ended_us=1_005_000, gtids=f"{GTID}:1-7", proof="probed"),
]


def test_a_story_is_told_in_the_order_of_time() -> None:
    line = timeline.draw(read(Finding.KNOWN_TOO_SMALL, shown=f"{GTID}:1-6"), STORY)
    session = "session 7 (gate, a1)"
    assert steps(line) == [
        ("-3.48 ms", "primary:3306", "the same session writes 00aa on primary:3306"),
        ("-2.50 ms", session, "the write is acknowledged: its client was told of"),
        ("-1.50 ms", "r1:3306", "r1:3306 says for the last time before the read that it has"),
        ("0", session, "the read arrives"),
        ("+50 µs", "r1:3306", "r1:3306 answers it, believed to have"),
        ("+400 µs", session, "the client has its answer, which may lack"),
        ("+2.50 ms", "r1:3306", "r1:3306 says for the first time after the read that it has"),
    ]
    assert [step.number for step in line.steps] == list(range(1, 8))
    assert [step.gtids.removeprefix(GTID) for step in line.steps] == [
        *("", ":7", ":1-6", "", ":1-6", ":7", ":1-7")
    ]
    assert [(lane.label, lane.is_server) for lane in line.lanes] == [
        *(("session 7", False), ("primary:3306", True), ("r1:3306", True))
    ]
    assert [step.x for step in line.steps] == sorted(step.x for step in line.steps)


def test_nothing_leaves_the_picture_or_lies_on_another() -> None:
    hour = 3_600_000_000
    many = [
        scene("saw", by_session=8, by_run="b2", by_seq=number, ended_us=1_000_000 - number * hour,
              dispatched_us=999_990 - number * hour, arrived_us=999_980 - number * hour)
        for number in range(5)
    ]  # fmt: skip
    line = timeline.draw(read(Finding.KNOWN_TOO_SMALL), [*many, *many, *STORY])
    assert line.left_out == 8
    assert [lane.label for lane in line.lanes][:2] == ["session 7", "session 8"]
    places = [(step.lane, step.x) for step in line.steps]
    for number, (lane, x) in enumerate(places):
        assert line.lane_from < x < line.lane_to
        assert all(abs(x - other) > 17 for its, other in places[:number] if its == lane)
    for mark in (*line.ways, *line.works):
        assert line.lane_from < mark.x1 <= mark.x2 < line.lane_to
        assert 0 < mark.y1 < line.height
        assert 0 < mark.y2 < line.height


def test_a_read_that_waited_asked_or_had_no_server() -> None:
    waited = timeline.draw(read(Finding.WAITED_TOO_SMALL, proof="waited"), [scene("had")])
    assert [step.text for step in waited.steps] == [
        "primary:3306 says what it has",
        "the read arrives",
        "r1:3306 answers it, after a WAIT for nothing",
        "the client has its answer, which may lack",
    ]
    nobody = timeline.draw(read(Finding.UNNAMED_WRITE, server=None, missing=None, proof="none"), [])
    assert [step.text for step in nobody.steps] == [
        "the read arrives",
        "no server answers it, proof none",
        "the client has its answer",
    ]


def test_a_scene_belongs_to_one_read() -> None:
    others: list[Row] = [scene("wrote", **{name: 5}) for name in ("worker", "seq")]
    others += [scene("wrote", **{name: "x"}) for name in ("proxy", "run")]
    line = timeline.of(read(Finding.NO_PROOF), [*others, *STORY])
    assert len(line.steps) == 7


def test_a_long_name_is_cut_in_the_picture_and_not_in_the_text() -> None:
    name = "replica-7.eu-central-1.exaxample:3306"
    line = timeline.draw(read(Finding.NO_PROOF, server=name), [])
    assert (line.lanes[-1].label, line.lanes[-1].name) == ("replica-7…ample:3306", name)
