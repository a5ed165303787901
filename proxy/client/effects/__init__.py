"""What a finished command means for its session and for others."""
