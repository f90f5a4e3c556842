"""Experiments: specifications of models, training variants and seeds; their cells, how they are run, their reports."""
