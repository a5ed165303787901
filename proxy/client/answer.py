"""How far the answer to one command has come on its way to the client."""

from __future__ import annotations


class Answer:
    """That of one command.

    Attributes:
        held: its first bytes, while it is not clear yet whether they count.
        started: some of it has gone to the client.
        ending: its last bytes, while they are kept from the client; else None.
        prepared_anew: a server had forgotten the statement, and was asked to prepare it again.
    """

    def __init__(self) -> None:
        self.held = b""
        self.started = False
        self.ending: bytes | None = None
        self.prepared_anew = False
