"""Finds the session that a client's KILL names, in whichever worker it is."""
