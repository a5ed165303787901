"""SQL texts: how they are parsed and translated for SQLite, and what they return."""
