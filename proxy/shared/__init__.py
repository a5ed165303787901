"""What the sessions of one worker share."""
