"""What an audit found, as incidents, counter-examples and results that are kept."""
