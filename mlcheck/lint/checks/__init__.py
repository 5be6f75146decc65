"""One module per rule, named like it, with one function `check`."""
