"""Global variables by which the servers of a cluster can differ, so that their reads do.

What a session begins with by a global variable, and can set, is carried: a replica is told what it
is on the primary (`routing.session.defaults`). What no session can set is each server's own.
"""

from collections.abc import Mapping
from typing import Final

from routing.session.defaults import NAMES, SETS

_FULL_TEXT: Final = (
    *("ft_boolean_syntax", "ft_min_word_len", "ft_max_word_len", "ft_query_expansion_limit"),
    *("ft_stopword_file", "innodb_ft_max_token_size", "innodb_ft_min_token_size"),
    *("innodb_ft_server_stopword_table", "ngram_token_size"),
)
OF_WHOLE_SERVER: Final = ("lower_case_table_names", *_FULL_TEXT)
"""Those that change the rows of reads and that no session can set: where a replica's differ from
the primary's, its rows do."""

PACKETS: Final = "max_allowed_packet"
"""Only a smaller one is a difference: longer reads are refused there."""

_OF_SESSIONS: Final = tuple(
    name for name in NAMES if name not in SETS and not name.startswith("system_")
)
"""Those that each session begins with; its login chooses its character sets."""

COMPARED: Final = (*OF_WHOLE_SERVER, PACKETS, *_OF_SESSIONS)
"""Those that are compared while the proxy runs."""


def not_carried(primary: Mapping[str, str], replica: Mapping[str, str]) -> dict[str, str]:
    """What no session can make equal: what is so, and what follows, by the variable's name."""
    found = {
        name: f"{name} is {here!r} here and {there!r} at the primary: reads may find other rows"
        for name in OF_WHOLE_SERVER
        if (here := replica.get(name)) is not None
        and (there := primary.get(name)) is not None
        and here != there
    }
    here, there = replica.get(PACKETS, ""), primary.get(PACKETS, "")
    if here.isdecimal() and there.isdecimal() and int(here) < int(there):
        found[PACKETS] = (
            f"{PACKETS} is {here} here and {there} at the primary: longer reads are refused here"
        )
    return found


def carried(primary: Mapping[str, str], replica: Mapping[str, str]) -> list[str]:
    """What sessions begin with otherwise, of which each is told the primary's value: names."""
    return [
        name
        for name in _OF_SESSIONS
        if name in primary and name in replica and primary[name] != replica[name]
    ]
