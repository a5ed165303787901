"""What servers write for each other, and how replicas apply it."""
