"""Changes of level and scope, which the answers must not show.

BEST_EFFORT and BOUNDED_STALENESS are not among them: their reads may show what was there before the
session's own writes.
"""

from tests.differential.step import OwnStatement, Query, Step

_CONSISTENCIES = ("READ_OWN_WRITES", "MONOTONIC_READS", "READ_ALL_WRITES", "STRONG")
_SCOPES = ("connection", "user", "proxy")
_ITEMS = "SELECT id, name FROM items ORDER BY id"

LEVELS: tuple[Step, ...] = (
    *(OwnStatement(f"SET tidegate_consistency = '{level}'") for level in _CONSISTENCIES),
    *(OwnStatement(f"SET @@session.tidegate_scope = '{scope}'") for scope in _SCOPES),
    OwnStatement("SET tidegate_consistency = 'READ_ALL_WRITES', tidegate_scope = 'user'"),
    OwnStatement("SET tidegate_consistency = 'MONOTONIC_READS', tidegate_scope = 'proxy'"),
    OwnStatement("SET tidegate_application = 'shop', tidegate_scope = 'application'"),
    OwnStatement("SET tidegate_consistency = DEFAULT, tidegate_scope = DEFAULT"),
    OwnStatement("SET tidegate_wait_budget = '3s', tidegate_on_timeout = 'primary'"),
    *(Query(f"/* tidegate consistency={level} */ {_ITEMS}") for level in _CONSISTENCIES),
    *(Query(f"/* tidegate scope={scope} */ {_ITEMS}") for scope in _SCOPES),
    Query("/* tidegate consistency=STRONG */ INSERT INTO parts (label) VALUES ('p')"),
    Query("/* tidegate consistency=MONOTONIC_READS scope=user */ SELECT qty / 0 FROM items"),
    *(Query(_ITEMS, (("tidegate.consistency", level),)) for level in _CONSISTENCIES),
    Query("DELETE FROM parts WHERE id = 1", (("tidegate.consistency", "READ_ALL_WRITES"),)),
)
