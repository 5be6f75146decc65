"""What enters the losses of a program, and how low and how high they can go."""
