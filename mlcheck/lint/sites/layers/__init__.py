"""What the modules of a program are made of, and what their forward passes write."""
