"""Clients: their login, their commands, their answers."""
