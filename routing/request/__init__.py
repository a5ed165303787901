"""What becomes of one command."""
