"""The pre-launch checklist for PyTorch: lint the code, probe the model, load it, sign it off."""

__version__ = "0.1.0"
