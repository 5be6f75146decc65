"""Reads the experiment's YAML together with the code that it starts, and runs neither."""
