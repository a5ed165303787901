"""Draws a counter-example: one lane per session and server, and numbered steps in time.

The distance between two moments grows with the time between them, but not in proportion: a write
that was acknowledged an hour before must fit beside an answer that took 200 µs.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from spark_jobs.markdown import moment, span
from spark_jobs.report.names import shorten
from spark_jobs.tables.row import Row

SOURCES: Final = ("wrote", "saw", "had")
_MOST: Final = 3
"""How many records that name what is missing are drawn at most: the newest."""

_LABEL: Final = 165
_MARGIN: Final = 30
_WIDTH: Final = 900
_LANE: Final = 58
_TOP: Final = 34
_BADGE: Final = 21
_LONGEST: Final = 20


@dataclass(slots=True)
class Step:
    """Something that happened.

    Attributes:
        kind: "write", "told", "proof" or "read"; this decides its colour.
        lane: the name of its lane.
        at_us: when it began, UTC.
        until_us: when it ended; `at_us` if it has no duration.
        text: what it was.
        gtids: the set that it is about; "" if none.
        number: its number in the order of time, from 1.
        x: the horizontal position of its badge.
        y: the vertical position of its badge.
    """

    kind: str
    lane: str
    at_us: int
    until_us: int
    text: str
    gtids: str = ""
    number: int = 0
    x: float = 0
    y: float = 0


@dataclass(frozen=True, slots=True)
class Lane:
    """A session or a server.

    Attributes:
        name: in full.
        label: the name, shortened to fit.
        y: its vertical position.
        is_server: whether it is a server.
    """

    name: str
    label: str
    y: float
    is_server: bool


@dataclass(frozen=True, slots=True)
class Mark:
    """A line: a statement on its way, or being executed by a server."""

    kind: str
    x1: float
    y1: float
    x2: float
    y2: float


@dataclass(slots=True)
class Timeline:
    """What the page draws.

    Attributes:
        lanes: from top to bottom.
        steps: in the order of time.
        ways: statements and answers on their way.
        works: statements being executed.
        now_us: arrival of the read, from which offsets are counted.
        left_out: how many records that name what is missing are not drawn.
    """

    now_us: int
    left_out: int = 0
    lanes: list[Lane] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    ways: list[Mark] = field(default_factory=list)
    works: list[Mark] = field(default_factory=list)
    width: int = _WIDTH
    lane_from: int = _LABEL
    lane_to: int = _WIDTH - 8

    @property
    def height(self) -> int:
        """The height of the picture, in the units of all positions."""
        return _TOP + _LANE * len(self.lanes) - 14

    def offset(self, step: Step) -> str:
        """How long before or after the read's arrival a step is."""
        # Of answers and acknowledgements, the times of their ends are known.
        apart = step.at_us - self.now_us
        if apart == 0:
            return "0"
        return f"{'' if apart < 0 else '+'}{span(apart)}"


@dataclass(frozen=True, slots=True)
class _Travel:
    """A statement: from its session to a server and back."""

    kind: str
    session: str
    server: str
    arrived_us: int
    dispatched_us: int
    ended_us: int


def draw(read: Row, scene: Sequence[Row]) -> Timeline:
    """Draw a read that missed something.

    Args:
        read: JUDGED.
        scene: SCENE, of this read.
    """
    sources = sorted(
        (row for row in scene if row.text("what") in SOURCES),
        key=lambda row: row.number("ended_us"),
    )
    line = Timeline(read.number("arrived_us"), max(0, len(sources) - _MOST))
    travels = [_travel(line, read, source) for source in sources[-_MOST:]]
    for row in scene:
        if row.text("what") not in SOURCES:
            _said(line, row)
    travels.append(_read(line, read))
    _lay_out(line, read, [travel for travel in travels if travel is not None])
    return line


def of(read: Row, scenes: Iterable[Row]) -> Timeline:
    """Draw a read, choosing its rows from those of many scenes."""
    mine = [
        row
        for row in scenes
        if all(row.text(name) == read.text(name) for name in ("proxy", "run"))
        and all(row.number(name) == read.number(name) for name in ("worker", "seq"))
    ]
    return draw(read, mine)


def session_of(row: Row, proxy: str, run: str) -> str:
    """The name of a session's lane; `proxy` and `run` are the names of the columns to use."""
    number = row.number("session" if run == "run" else "by_session")
    return f"session {number} ({row.text(proxy)}, {row.text(run)})"


def _travel(line: Timeline, read: Row, source: Row) -> _Travel | None:
    how, gtids = source.text("what"), source.text("gtids")
    server = source.text("server") if source.has("server") else "no server"
    begun, ended = source.number("dispatched_us"), source.number("ended_us")
    if how == "had":
        line.steps.append(Step("write", server, begun, ended, f"{server} says what it has", gtids))
        return None
    session = session_of(source, "by_proxy", "by_run")
    whose = "the same session" if session == session_of(read, "proxy", "run") else session
    digest = f" {source.text('digest')}" if source.has("digest") else ""
    if how == "wrote":
        did, told = f"{whose} writes{digest}", "the write is acknowledged: its client was told of"
    else:
        did, told = f"{whose} asks{digest}", "the answer has arrived: its client was shown"
    line.steps.append(Step("write", server, begun, ended, f"{did} on {server}"))
    line.steps.append(Step("told", session, ended, ended, told, gtids))
    return _Travel("write", session, server, source.number("arrived_us"), begun, ended)


def _said(line: Timeline, row: Row) -> None:
    server, when = row.text("server"), row.number("ended_us")
    told = (
        f"{server} says for the last time before the read that it has"
        if row.text("what") == "before"
        else f"{server} says for the first time after the read that it has"
    )
    line.steps.append(Step("proof", server, when, when, told, row.text("gtids")))


def _read(line: Timeline, read: Row) -> _Travel:
    session = session_of(read, "proxy", "run")
    server = read.text("server") if read.has("server") else "no server"
    arrived, ended = read.number("arrived_us"), read.number("ended_us")
    begun = read.number("dispatched_us")
    proof = read.text("proof")
    shown = read.text("shown") if read.has("shown") else ""
    what = {
        "known": "believed to have",
        "waited": "after a WAIT for",
        "independent": "believed to need no more than",
    }.get(proof, f"proof {proof}")
    told = what if shown or proof not in ("known", "waited", "independent") else f"{what} nothing"
    line.steps.append(Step("read", session, arrived, arrived, "the read arrives"))
    line.steps.append(Step("read", server, begun, ended, f"{server} answers it, {told}", shown))
    missing = read.text("missing") if read.has("missing") else ""
    without = "the client has its answer" + (", which may lack" if missing else "")
    line.steps.append(Step("read", session, ended, ended, without, missing))
    return _Travel("read", session, server, arrived, begun, ended)


def _lay_out(line: Timeline, read: Row, travels: Sequence[_Travel]) -> None:
    line.steps.sort(key=lambda step: (step.at_us, step.until_us))
    moments = {moment for step in line.steps for moment in (step.at_us, step.until_us)}
    moments |= {travel.arrived_us for travel in travels}
    places = _places(sorted(moments), line)
    rows = _lanes(line, read, travels)
    taken: set[tuple[str, int]] = set()
    for number, step in enumerate(line.steps, 1):
        step.number, step.x, step.y = number, places[step.at_us], rows[step.lane]
        # Badges of steps at the same moment are placed side by side.
        while any((step.lane, round(step.x) + near) in taken for near in range(-17, 18)):
            step.x += _BADGE
        taken.add((step.lane, round(step.x)))
        if step.until_us > step.at_us:
            mark = Mark(step.kind, places[step.at_us], step.y, places[step.until_us], step.y)
            line.works.append(mark)
    for travel in travels:
        session, server = rows[travel.session], rows[travel.server]
        begun, ended = places[travel.dispatched_us], places[travel.ended_us]
        line.ways.append(Mark(travel.kind, places[travel.arrived_us], session, begun, server))
        line.ways.append(Mark(travel.kind, ended, server, ended, session))


def _places(moments: Sequence[int], line: Timeline) -> dict[int, float]:
    weights = [max(1.5, math.log10(1 + later - earlier)) for earlier, later in pairwise(moments)]
    room = line.lane_to - line.lane_from - 2 * _MARGIN
    unit = room / sum(weights) if weights else 0
    place: float = line.lane_from + _MARGIN
    places = {moments[0]: place}
    for moment_us, weight in zip(moments[1:], weights, strict=True):
        place += weight * unit
        places[moment_us] = round(place, 1)
    return places


def _lanes(line: Timeline, read: Row, travels: Sequence[_Travel]) -> dict[str, float]:
    """Sessions above, the reader's first; then servers, the one that answered the read last."""
    sessions = list(dict.fromkeys(travel.session for travel in reversed(travels)))
    others = [step.lane for step in line.steps if step.lane not in sessions]
    answered = read.text("server") if read.has("server") else "no server"
    servers = [name for name in dict.fromkeys(others) if name != answered] + [answered]
    labels = {name: name.partition(" (")[0] for name in sessions} | shorten(servers, _LONGEST)
    for number, name in enumerate([*sessions, *servers]):
        line.lanes.append(Lane(name, labels[name], _TOP + number * _LANE, name in servers))
    return {lane.name: lane.y for lane in line.lanes}


def title(read: Row) -> str:
    """The title of an example: when the read arrived, and in which session."""
    return (
        f"{moment(read.number('arrived_us'))} UTC, session {read.number('session')}, statement "
        f"{read.number('ordinal')}"
    )
