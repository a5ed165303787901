"""Finds the few steps of a session that a difference needs."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.differential.comparison import Difference
from tests.differential.session import Session

Judge = Callable[[Session], Difference | None]


def shrink(session: Session, found: Difference, judge: Judge) -> tuple[Session, Difference]:
    """Drop steps as long as the last one's answers differ; what is left, and how it differs.

    Args:
        session: with a difference.
        found: that difference; answer 0 is the login's, so its step counts from 1.
        judge: runs a session.
    """
    session = session.with_steps(session.steps[: found.step])
    size = len(session.steps) // 2
    while size:
        start = 0
        while start < len(session.steps) - 1:
            end = min(start + size, len(session.steps) - 1)
            fewer = session.with_steps(session.steps[:start] + session.steps[end:])
            difference = judge(fewer)
            if difference is not None and difference.step == len(fewer.steps):
                session, found = fewer, difference
            else:
                start = end
        size //= 2
    for plainer in _plainer(session):
        difference = judge(plainer)
        if difference is not None and difference.step == len(plainer.steps):
            return plainer, difference
    return session, found


def _plainer(session: Session) -> Iterator[Session]:
    """The session where servers differ in nothing, in one variable; all else is usual."""
    usual = replace(session, follows=False, collation=255)
    if usual != session or session.defaults:
        yield replace(usual, defaults=())
    for default in session.defaults:
        yield replace(usual, defaults=(default,))
        yield replace(session, defaults=(default,))
