"""The values of a session's expressions: variables, functions, virtual tables."""
