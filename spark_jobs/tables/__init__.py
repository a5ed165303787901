"""The schemas of the tables, their rows and times, and how small ones are written."""
