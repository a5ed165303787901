"""How the server describes the columns of a result."""
