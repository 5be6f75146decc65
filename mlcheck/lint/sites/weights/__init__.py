"""Weights that are saved and loaded."""
