"""A stand-in for the `determined` package that runs one slot of an unmodified PyTorchTrial, without a cluster.

It keeps the semantics of Determined's own PyTorch harness (0.24 to 0.38) and notes every call of its API.
"""
