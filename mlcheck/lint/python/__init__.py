"""What Python's statements, expressions and calls do to the machine."""
