"""Judges the sessions of many seeds, and tells of those that differ."""

import os
from collections.abc import Callable, Iterable

from tests.differential.comparison import Difference
from tests.differential.session import Session
from tests.differential.shrinking import Judge, shrink

REPORTED = int(os.environ.get("TIDEGATE_REPORTED", "10"))
"""So many kinds of differences are shrunk and shown; one kind of last step counts once."""


def deep_seeds(sessions: int) -> range:
    """`TIDEGATE_SEEDS` (`1234` or `1000-4000`), or else `TIDEGATE_SESSIONS` of them from 1000 on.

    Args:
        sessions: how many, where the environment says nothing.
    """
    sessions = int(os.environ.get("TIDEGATE_SESSIONS", sessions))
    first, _, last = os.environ.get("TIDEGATE_SEEDS", f"1000-{999 + sessions}").partition("-")
    return range(int(first), int(last or first) + 1)


def judge_seeds(
    chosen: Iterable[int],
    generate: Callable[[int], Session],
    judge: Judge,
    accepted: Callable[[Session, Difference], object],
) -> int:
    """Judge the session of each seed; how many end in a difference that is accepted.

    Raises:
        AssertionError: others differ; up to `REPORTED` kinds are shown with their seeds.
        BaseException: `judge` could not judge; what was found before is in the notes.
    """
    reports: dict[str, str] = {}
    known = 0
    try:
        for seed in chosen:
            session = generate(seed)
            found = judge(session)
            if found is None:
                continue
            if accepted(session, found):
                known += 1
                continue
            kind = repr(session.steps[found.step - 1]) if found.step else "the login"
            if kind not in reports:
                # As it is, first: whoever judges may fail while it shrinks.
                reports[kind] = f"seed {seed}:\n{session}\n{found}"
                session, found = shrink(session, found, judge)
                reports[kind] = f"seed {seed}:\n{session}\n{found}"
            if len(reports) == REPORTED:
                break
    except BaseException as error:
        for report in reports.values():
            error.add_note(f"Found before: {report}")
        raise
    assert not reports, "\n\n".join(reports.values())
    return known
