"""The closed sets of values of labels, where they are not enums that others know, too."""

from typing import Literal

Side = Literal["client", "server", "proxy"]
WaitResult = Literal["reached", "timeout", "not_yet", "failed", "interrupted", "shared"]
Crowded = Literal["waits", "delayed", "refused"]
Audited = Literal["held", "stale", "unanswered"]
Confirmed = Literal["held", "lost", "unanswered"]
Hop = Literal["end_to_end", "last_hop"]
Part = Literal["end_to_end", "last_hop", "transport", "apply"]
LagMeans = Literal["binlog", "performance_schema", "heartbeat"]
StreamFailure = Literal["denied", "lost", "malformed", "refused"]
StreamEnd = Literal[StreamFailure, "unlogged"]
TablesEnd = Literal[StreamFailure, "rate", "unfit"]
LogTask = Literal["compress", "delete", "list"]
Dropped = Literal["age", "changed", "full", "lost", "moved", "refused", "room", "stopped", "unfit"]
ConnectFailure = Literal["unreachable", "refused", "full", "no_descriptor"]
SlotWait = Literal["connected", "timeout", "left"]
UnknownCause = Literal["error", "lost", "abandoned", "unnamed", "result"]
EndCause = Literal[
    "client_idle_timeout",
    "max_allowed_packet",
    "max_session_memory",
    "wait_timeout",
]
RefusalCause = Literal[
    "max_connections",
    "max_user_connections",
    "max_client_connections",
    "max_login_rate",
    "timeout",
    "closed",
    "protocol",
    "no_tls",
    "compression",
    "attribute",
    "login",
    "server_full",
    "primary_unreachable",
    "no_descriptor",
]
