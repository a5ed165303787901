"""A client's login: its password, its account, and the session that follows."""
