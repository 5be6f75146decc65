"""The files of a run: which are meant, their text and trees, and which of them can have a say in one another."""
