"""From the bytes of servers to the answer that a client gets."""
