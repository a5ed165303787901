"""Servers that run: who listens, who is connected, who follows whom."""
