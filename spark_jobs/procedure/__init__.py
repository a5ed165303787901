"""Whether the proxy asked where it had to, whatever the verdicts on its reads are."""
