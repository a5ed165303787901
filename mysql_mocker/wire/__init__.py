"""The protocol's server side: connections, logins, commands, answers."""
