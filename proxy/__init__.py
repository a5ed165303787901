"""The only part of Tidegate that does I/O."""

import protocol as protocol  # first: it settles whether compiled or plain modules are loaded
