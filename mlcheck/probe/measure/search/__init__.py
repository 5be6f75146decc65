"""What a search over hyperparameters would start, rehearsed."""
