"""Decisions: which server may answer a statement, and what proves it; pure."""

import protocol as protocol  # first: it settles whether compiled or plain modules are loaded
