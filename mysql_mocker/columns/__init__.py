"""How the server describes the columns of a result, and the parameters of a statement."""
