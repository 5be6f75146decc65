"""Optimizers, schedules and training steps, as they are written."""
