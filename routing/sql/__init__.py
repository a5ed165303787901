"""What a statement is: from its text to its class, its effects and its own settings."""
