"""The port for operators (admin-listen): Tidegate's own statements, whatever the servers do."""
