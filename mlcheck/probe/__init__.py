"""Runs the user's trial a little, in a child process, and judges what was measured."""
