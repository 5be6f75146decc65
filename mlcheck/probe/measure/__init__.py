"""One measurement per module: a frozen dataclass with `measure(trial)`; checks judge it."""
