"""What each kind of statement does."""
