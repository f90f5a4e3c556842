"""Training: batches, the loop, checkpoints, runs."""
