"""What the server says of the columns of a result, and of the parameters of a statement."""
