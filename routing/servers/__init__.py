"""What is known of servers: who they are, what they have applied, how far behind they are."""
