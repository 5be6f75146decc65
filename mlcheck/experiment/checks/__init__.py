"""One module a rule about experiment configs, each with one function `check`."""
