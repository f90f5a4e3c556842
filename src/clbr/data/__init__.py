"""Data sets: from frames, files and archives; their split, their statistics, their folder on disk."""
