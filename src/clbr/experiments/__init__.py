"""Experiments: a specification, its cells, what they came to, and the report."""
