"""Options of how Tidegate connects to servers and watches them."""

from typing import Final

from proxy.config import values
from proxy.config.option import Option
from proxy.config.words import ServerTls, Switch, TableDependencies

_GROUP: Final = "connections to the servers"

OPTIONS: Final = (
    Option(
        "connect-timeout",
        values.duration(600),
        "TIME",
        "time a server has to accept a connection and a login (default 5s)",
        _GROUP,
    ),
    Option(
        "kept-connections",
        values.integer(0, 10_000),
        "N",
        "how many connections to each server a worker keeps for later logins; 0 keeps none"
        " (default 32)",
        _GROUP,
    ),
    Option(
        "kept-connection-age",
        values.duration(3600),
        "TIME",
        "how long a connection is kept for a later login (default 5s)",
        _GROUP,
    ),
    Option(
        "login-age",
        values.duration_or_0(3600),
        "TIME",
        "how long an accepted login is reused for the same login; 0 asks the server each time"
        " (default 5s)",
        _GROUP,
    ),
    Option(
        "max-server-connections",
        values.integer(0, 100_000),
        "N",
        "most connections to each server, per worker; 0 means no limit (default 0)",
        _GROUP,
    ),
    Option(
        "server-connection-timeout",
        values.duration(3600),
        "TIME",
        "how long a login or a command waits if all of them are taken (default 5s)",
        _GROUP,
    ),
    Option(
        "connection-sharing",
        values.choice(values.words(Switch)),
        "MODE",
        "whether idle sessions give their connections back (default on)",
        _GROUP,
        choices=values.words(Switch),
    ),
    Option(
        "connection-sharing-delay",
        values.duration(3600),
        "TIME",
        "how long a session is idle before it does so (default 1s)",
        _GROUP,
    ),
    Option(
        "server-tls",
        values.choice(values.words(ServerTls)),
        "MODE",
        "TLS between proxy and servers (default preferred)",
        _GROUP,
        choices=values.words(ServerTls),
    ),
    Option(
        "server-tls-ca",
        values.path,
        "FILE",
        "PEM certificates of the CAs that verify_ca and verify_identity trust",
        _GROUP,
    ),
    Option(
        "server-compression",
        values.algorithms_or_off,
        "ALGORITHM[,…]",
        "compression to the servers: off, or zlib, zstd and uncompressed in order of preference"
        " (default off)",
        _GROUP,
    ),
    Option(
        "monitor-user",
        values.user,
        "USER",
        "account for watching the servers; it needs privileges only for failover, filters and lag",
        _GROUP,
    ),
    Option(
        "monitor-password-file",
        values.path,
        "FILE",
        "file that holds that account's password",
        _GROUP,
    ),
    Option(
        "monitor-interval",
        values.duration(60),
        "TIME",
        "time between two checks of a server (default 1s)",
        _GROUP,
    ),
    Option(
        "heartbeat-table",
        values.table,
        "SCHEMA.TABLE",
        "pt-heartbeat's table, to measure lag where the monitor may read nothing better",
        _GROUP,
    ),
    Option(
        "binlog-lag",
        values.choice(values.words(Switch)),
        "MODE",
        "whether to read replicas' binary logs for the lag of every transaction (default off)",
        _GROUP,
        choices=values.words(Switch),
    ),
    Option(
        "table-dependencies",
        values.choice(values.words(TableDependencies)),
        "MODE",
        "when to read in the primary's binary log which tables transactions change (default auto:"
        " while replicas are late)",
        _GROUP,
        choices=values.words(TableDependencies),
    ),
    Option(
        "table-dependencies-rate",
        values.size(1 << 10, 1 << 40),
        "BYTES",
        "bytes per second of that log, above which it is not read (default 1M)",
        _GROUP,
    ),
)
