"""What the user's training loop does in a few steps, on one batch, and over its planned run."""
