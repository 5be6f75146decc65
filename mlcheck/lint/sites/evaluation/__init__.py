"""Metrics, and the steps that evaluate, as they are written."""
