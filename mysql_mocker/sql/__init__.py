"""SQL texts: how they are parsed, translated for SQLite and evaluated."""
