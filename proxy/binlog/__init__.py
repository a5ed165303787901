"""The command `tidegate binlog`: when the transactions in binary logs were committed."""
