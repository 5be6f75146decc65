"""What the samples and batches of the user's data hold, and what loading makes of them."""
