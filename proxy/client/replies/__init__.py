"""The proxy's own answers to its clients."""
