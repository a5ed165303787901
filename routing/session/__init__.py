"""What one session holds, carries and must see."""
