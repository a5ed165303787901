"""Options that name the servers."""

from typing import Final

from proxy.config import values
from proxy.config.option import Option
from proxy.config.words import ReadFrom, TopologyKind

_GROUP: Final = "the servers"

OPTIONS: Final = (
    Option(
        "primary",
        values.server,
        "HOST:PORT",
        "the server that takes writes (default port 3306); required",
        _GROUP,
    ),
    Option(
        "replicas",
        values.servers,
        "HOST:PORT[,…]",
        "servers that replicate from the primary by GTID; may be given several times",
        _GROUP,
        repeatable=True,
    ),
    Option(
        "topology",
        values.choice(values.words(TopologyKind)),
        "KIND",
        "whether servers are found by asking those that are named (default static)",
        _GROUP,
        choices=values.words(TopologyKind),
        at_start=True,
    ),
    Option(
        "zone",
        values.name,
        "NAME",
        "the proxy's own zone: replicas in it are read before others",
        _GROUP,
    ),
    Option(
        "read-from",
        values.choice(values.words(ReadFrom)),
        "SERVERS",
        "whether the primary takes its share of reads, too (default replicas)",
        _GROUP,
        choices=values.words(ReadFrom),
    ),
)
