"""The work of a run: cut into tasks, shared among processes, and kept in a cache for the next run."""
