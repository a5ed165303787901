"""What operators see and do over SQL and HTTP: sessions, servers, digests; drain, reload, kill."""
