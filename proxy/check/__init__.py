"""`tidegate check --connect`: whether the servers are as Tidegate needs them."""
