"""What the user's evaluation does, and whether its metrics are right."""
