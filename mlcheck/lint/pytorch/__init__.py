"""What PyTorch's modules, losses, optimizers and their kin do to the machine."""
