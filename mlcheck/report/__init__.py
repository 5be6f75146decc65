"""Renderers: each is one function from a report to text. Nothing here runs, prints or decides."""
