"""Advises on GTID sets that grow."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from spark_jobs.tables.row import Row

MANY_INTERVALS: Final = 100
MANY_SOURCES: Final = 10
MANY_TAGS: Final = 20
LARGE_BYTES: Final = 4096


def advise(growth: Sequence[Row]) -> list[str]:
    """Say what to do about the sets; an empty list if nothing needs to be done.

    Args:
        growth: GROWTH.
    """
    return [*_about_servers(growth), *_about_requirements(growth)]


def _about_servers(growth: Iterable[Row]) -> Iterable[str]:
    servers: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in growth:
        if row.text("what") == "executed":
            servers[row.text("role"), row.text("server")].append(row)
    primaries = [row.number("intervals") for (role, _), rows in servers.items() for row in rows
                 if role == "primary"]  # fmt: skip
    whole = max(primaries, default=0)
    for (role, server), hours in sorted(servers.items()):
        first, last = hours[0], hours[-1]
        intervals, sources = last.number("intervals"), last.number("sources")
        if intervals >= MANY_INTERVALS:
            grown = f"from {first.number('intervals'):,} to {intervals:,} intervals"
            if role == "replica" and primaries and intervals >= 2 * whole:
                yield (
                    f"{server} went {grown}, and its primary has no more than {whole:,}: it skips "
                    "transactions (filters, or errors that were passed over), or it commits out of "
                    "order. Set replica_preserve_commit_order=ON and binlog_order_commits=ON; gaps "
                    "that stay even so are transactions that it lacks."
                )
            else:
                yield (
                    f"{server} went {grown}. Its gaps come from GTIDs that somebody chose "
                    "(GTID_NEXT, gtid_purged, restored parts of a dump), and stay for ever. Empty "
                    "transactions with the missing GTIDs close the gaps, if nobody will ever need "
                    "these GTIDs for other transactions."
                )
        if last.number("tags") >= MANY_TAGS:
            yield (
                f"{server} has {last.number('tags'):,} tags, each with intervals of its own. Use "
                "only a few tags, one for each kind of work."
            )
        if sources >= MANY_SOURCES:
            yield (
                f"{server} knows GTIDs of {sources:,} servers. Each server that ever was a primary "
                "costs about 40 bytes in every set; give a rebuilt server its old server_uuid "
                "(auto.cnf)."
            )


def _about_requirements(growth: Iterable[Row]) -> Iterable[str]:
    required = [row.number("bytes") for row in growth if row.text("what") == "required"]
    if max(required, default=0) >= LARGE_BYTES:
        yield (
            f"Reads had to see sets of up to {max(required):,} bytes, which every WAIT carries to "
            "a server. Narrower scopes or fewer gaps make them smaller."
        )
