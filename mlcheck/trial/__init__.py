"""Turns what a user has, a trial class or a function, into one `Trial`. The only package that knows frameworks."""
