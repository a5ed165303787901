"""How the plain statements of plain sessions go to a server, and their answers back."""
