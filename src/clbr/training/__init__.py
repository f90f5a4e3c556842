"""Training: batches, the loop, run folders, checkpoints, presets."""
