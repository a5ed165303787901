"""Sessions that give their connections back, and borrow others."""
