"""Reports what happened: metrics and the routing log."""
