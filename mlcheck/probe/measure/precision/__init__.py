"""What lower precision, compilation, scripting and memory formats change in the numbers."""
