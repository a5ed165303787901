"""Options of processes, metrics, logs and state."""

from typing import Final

from proxy.config import values
from proxy.config.log_keep import LogKeep
from proxy.config.option import Option
from proxy.config.words import LogCompression, LogFormat, LogLevel, Switch

_GROUP: Final = "operation"

OPTIONS: Final = (
    Option(
        "workers",
        values.integer(1, 256),
        "N",
        "processes that share the port (default 1)",
        _GROUP,
        at_start=True,
    ),
    Option(
        "metrics",
        values.address("0.0.0.0", None, 0),
        "[HOST]:PORT",
        "serve Prometheus metrics at http://HOST:PORT/metrics",
        _GROUP,
        at_start=True,
    ),
    Option(
        "admin-token-file",
        values.path,
        "FILE",
        "file with the token that /v1/ at the metrics address then wants, and may act with",
        _GROUP,
        at_start=True,
    ),
    Option(
        "statement-digests",
        values.choice(values.words(Switch)),
        "SWITCH",
        "whether statements are counted by digest (default on)",
        _GROUP,
        choices=values.words(Switch),
        at_start=True,
    ),
    Option(
        "slow-statement-time",
        values.duration_or_off(3600),
        "TIME",
        "statements that take as long are logged, without literals, or off (default off)",
        _GROUP,
        at_start=True,
    ),
    Option(
        "routing-log",
        values.path,
        "DIR",
        "write one record per statement below this directory",
        _GROUP,
        at_start=True,
    ),
    Option(
        "routing-log-keep",
        LogKeep.read,
        "AGE[,SIZE]",
        "age and size of the log that is kept, such as 30d or 30d,100G (default all)",
        _GROUP,
    ),
    Option(
        "routing-log-compression",
        values.choice(values.words(LogCompression)),
        "ALGORITHM",
        "how closed log files are compressed (default gzip)",
        _GROUP,
        choices=values.words(LogCompression),
    ),
    Option(
        "routing-log-sync",
        values.duration_or_0(3600),
        "TIME",
        "how often the log is synced to disk; 0 syncs complete files only (default 1s)",
        _GROUP,
    ),
    Option(
        "trace-endpoint",
        values.url,
        "URL",
        "send spans of statements there by OTLP over HTTP, such as http://127.0.0.1:4318/v1/traces",
        _GROUP,
        at_start=True,
    ),
    Option(
        "trace-sample",
        values.number(0, 1),
        "SHARE",
        "share of the statements without a traceparent that become spans (0.01, unless"
        " OTEL_TRACES_SAMPLER says)",
        _GROUP,
        at_start=True,
    ),
    Option(
        "state-dir",
        values.path,
        "DIR",
        "directory to keep who the primary is (with failover = read_only) and what scopes require"
        " (with one worker)",
        _GROUP,
        at_start=True,
    ),
    Option(
        "control-socket",
        values.path,
        "PATH",
        "Unix socket at which tidegate reload asks the running proxy (default: control.sock in"
        " state-dir)",
        _GROUP,
        at_start=True,
    ),
    Option(
        "proxy-name",
        values.name,
        "NAME",
        "this proxy's name in the routing log (default: the host name)",
        _GROUP,
        at_start=True,
    ),
    Option(
        "drain-delay",
        values.duration(3600, zero=True),
        "TIME",
        "time that a stop goes on taking clients, while /readyz says that it stops (default 0)",
        _GROUP,
    ),
    Option(
        "drain-timeout",
        values.duration(3600, zero=True),
        "TIME",
        "time that open statements and transactions have to end at a stop (default 30s)",
        _GROUP,
    ),
    Option(
        "log-level",
        values.choice(values.words(LogLevel)),
        "LEVEL",
        "least severe message written to stderr (default info)",
        _GROUP,
        choices=values.words(LogLevel),
    ),
    Option(
        "log-format",
        values.choice(values.words(LogFormat)),
        "FORMAT",
        "form of the messages on stderr (default text)",
        _GROUP,
        choices=values.words(LogFormat),
    ),
)
