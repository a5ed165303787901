"""Small programs that show how applications use Tidegate."""
