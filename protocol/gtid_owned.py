"""`@@GLOBAL.gtid_owned`: transactions that are being committed, each with the thread that does it.

The server writes ``uuid:9#12:5#11`` and puts the next UUID, or UUID and tag, right after it,
without a separator: only the UUID's form tells where a thread's number ends (measured on 9.7.4).
The rows of such a transaction can be visible already: it is added to `gtid_executed` only after its
commit in the engine.
"""

import re
from typing import Final

from protocol.errors import MalformedGtidSetError
from protocol.gtid import GtidSet

_UUID: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_GROUP: Final = re.compile(
    rf"({_UUID}(?::[a-z_][a-z0-9_]*)?)((?::[0-9]+#[0-9]+?(?=:|{_UUID}|\Z))+)"
)
_THREAD: Final = re.compile(r"#[0-9]+")


def parse_owned(text: str) -> GtidSet:
    """The transactions of a `gtid_owned`.

    Raises:
        MalformedGtidSetError: the text has another form.
    """
    parts: list[str] = []
    position = 0
    for match in _GROUP.finditer(text):
        if match.start() != position:
            break
        position = match.end()
        parts.append(match[1] + _THREAD.sub("", match[2]))
    if position != len(text):
        raise MalformedGtidSetError(f"not a gtid_owned: {text[position : position + 60]!r}")
    return GtidSet.parse(",".join(parts))
