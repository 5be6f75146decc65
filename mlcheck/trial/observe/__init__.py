"""Watches running processes from outside: what they wait for, what they use, and where their Python stands."""
