"""Data sets: reading, importing, fetching, describing, simulating."""
