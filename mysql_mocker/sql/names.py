"""How names are written in SQLite's SQL."""


def stored_name(schema: str, table: str) -> str:
    """The SQLite name of a table."""
    return f"{schema}.{table}"


def quoted(name: str) -> str:
    """A name, quoted for SQLite's SQL."""
    return '"' + name.replace('"', '""') + '"'
