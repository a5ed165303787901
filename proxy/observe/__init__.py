"""What happened, told: metrics and the routing log."""
