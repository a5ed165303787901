"""What an ordinary server says about itself and the session."""

from typing import Final

from protocol.gtid import EMPTY
from proxy.server.identity import Identity
from routing.session.defaults import UNKNOWN

IDENTITY: Final = Identity(
    executed=EMPTY,
    owned=EMPTY,
    sql_mode="",
    isolation="REPEATABLE-READ",
    autocommit=True,
    character_set="utf8mb4",
    max_allowed_packet=1 << 26,
    roles="NONE",
    read_only=False,
    counted=0,
    wait_timeout=28800,
    init_connect="",
    cascade_triggers=False,
    defaults=UNKNOWN,
    asked_us=0,
    answered_us=0,
    grew=False,
)
