"""Reads PyTorch programs as programs. Never imports torch, never runs or imports the code it reads."""
