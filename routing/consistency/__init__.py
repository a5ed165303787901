"""What a read may ask for, and what its scope has written and seen."""
