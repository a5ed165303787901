"""What expressions of a session are worth: variables, functions, tables that are made up."""
