"""Whether the clocks of the log were right, and by how much they differ."""
