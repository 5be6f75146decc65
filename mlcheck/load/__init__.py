"""Loads the finished model and says whether it may go live. Needs the extra `load`."""
