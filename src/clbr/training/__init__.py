"""Training: settings and presets, batches, the loop, run folders, processes, the live display."""
