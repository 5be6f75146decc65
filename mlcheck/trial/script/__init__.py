"""A training script that nobody prepared, run as a coroutine: it waits wherever it asks for its next batch."""
