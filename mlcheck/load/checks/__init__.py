"""One module a rule: judges what was measured, and measures nothing."""
