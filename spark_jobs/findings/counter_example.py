"""Describes one finding in full, as text: a read that missed writes, lost writes, a false WAIT."""

from collections.abc import Iterable
from typing import Final

from spark_jobs.markdown import brief, moment, plain, span
from spark_jobs.tables.row import Row
from spark_jobs.verdict import Dependence

_HOW: Final = {"wrote": "acknowledged", "saw": "answered", "had": "told by the primary"}


def counter_example(read: Row) -> str:
    """Describe a read that was not shown to see what it had to see.

    Names that come from the log can neither end a line nor control a terminal.
    """
    lines = [*_read(read)]
    lines += (_source(source, read.number("arrived_us"), read) for source in read.rows("missed"))
    if read.has("missing"):
        lines.append(f"  missing   {read.text('missing')}")
    lines.append(f"  required  {_set(read, 'claimed')} (by the proxy's own account)")
    lines.append(f"  shown     {_set(read, 'shown')}")
    return "\n".join(map(plain, lines))


def unproved_read(read: Row) -> str:
    """Describe a read for which the proxy left out a step, or whose server claimed too much.

    Args:
        read: PROCEDURE.
    """
    lines = [*_read(read)]
    if read.text("lacking"):
        lines.append(f"  lacking   {brief(read.text('lacking'))}")
    return "\n".join(map(plain, lines))


def lost_writes(row: Row) -> str:
    """Describe acknowledged writes that a primary lacks."""
    asked = row.number("asked_us")
    lines = [
        f"{moment(asked)}  primary {row.text('server_uuid')} was asked for its gtid_executed",
        _in_log(row),
        f"  lost      {brief(row.text('gtids'))}",
        *(_source(source, asked) for source in row.rows("writes")),
    ]
    return "\n".join(map(plain, lines))


def dependence(row: Row) -> str:
    """Describe a read that depended on what its server lacked (`independence.DEPENDENT`)."""
    changed = row.text("why") == Dependence.CHANGED
    table = f" {row.text('table')}" if changed else ""
    lines = (
        f"{moment(row.number('arrived_us'))}  session {row.number('session')}",
        _in_log(row),
        f"  read      answered by {row.text('server')}, independent by the proxy's word",
        f"  lacked    {row.text('gtid')}: {row.text('why')}{table}",
        f"  found     {row.text('file')} at {row.number('position')}",
    )
    return "\n".join(map(plain, lines))


def contradiction(row: Row) -> str:
    """Describe a WAIT whose claim a binary log contradicts.

    Args:
        row: `binlog_evidence.CONTRADICTED`.
    """
    late = span(row.number("applied_us") - row.number("claimed_us"))
    lines = [
        f"{moment(row.number('claimed_us'))}  session {row.number('session')}, a WAIT on "
        f"{row.text('server')} has ended",
        _in_log(row),
        f"  applied   {row.text('gtid')}, at least {late} later",
        f"  stamped   {moment(row.number('stamp_us'))}, by the replica's clock",
        f"  found     {row.text('file')} at {row.number('position')}",
    ]
    return "\n".join(map(plain, lines))


def read_by(read: Row) -> str:
    """Say which statement it was, whose, which server answered it, and why."""
    return (
        f"{_digest(read)} by {read.text('user')}, answered by {read.text('server')} "
        f"({read.text('role')}): {read.text('reason')}, proof {read.text('proof')}"
    )


def promise(read: Row) -> str:
    """Say what a read was promised."""
    level = read.text("level")
    if level == "BOUNDED_STALENESS" and read.has("bound_us"):
        return f"{level} of {span(read.number('bound_us'))}"
    return level if level == "STRONG" else f"{level}, scope {read.text('scope')}"


def _read(read: Row) -> Iterable[str]:
    yield (
        f"{moment(read.number('arrived_us'))}  session {read.number('session')}, statement "
        f"{read.number('ordinal')}"
    )
    yield _in_log(read)
    yield f"  read      {read_by(read)}"
    yield f"  promised  {promise(read)}"
    yield f"  finding   {read.text('finding')}"


def _in_log(row: Row) -> str:
    """Say where in the log a record is: its number there is the field `seq`."""
    return (
        f"  log       proxy {row.text('proxy')}, worker {row.number('worker')}: "
        f'"run":"{row.text("run")}","seq":{row.number("seq")},'
    )


def _source(source: Row, now_us: int, read: Row | None = None) -> str:
    how, gtids = source.text("how"), brief(source.text("gtids"))
    earlier = span(now_us - source.number("ended_us"))
    return f"  {how:<8}  {gtids}, {_HOW[how]} {earlier} earlier{_by(source, read)}"


def _by(source: Row, read: Row | None = None) -> str:
    """Say which record named GTIDs, without what it shares with the read.

    What a day's state knows of the days before stands for many records, and has no number of any.
    """
    seq, run, session = source.number("seq"), source.text("run"), source.number("session")
    where = f"record {seq}" if seq > 0 else "before the day"
    if read is None or run != read.text("run"):
        where = f"run {run}, {where}"
    if source.text("how") == "had":
        return f" ({where})"
    if read is None or (run, session) != (read.text("run"), read.number("session")):
        where = f"session {session}, {where}"
    whom = _digest(source) if seq > 0 else "statements"
    return f" by {whom} ({where})"


def _digest(statement: Row) -> str:
    return statement.text("digest") if statement.has("digest") else "no digest"


def _set(read: Row, column: str) -> str:
    if not read.has(column):
        return "unknown" if column == "claimed" else "nothing"
    return brief(read.text(column)) or "nothing"
