"""What the user's models compute, sample by sample and layer by layer."""
