"""The abstract machine: memory, frames, paths and their joins, where it starts, and what it need not follow."""
