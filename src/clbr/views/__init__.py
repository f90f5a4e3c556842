"""Edits to the three relations: what a counterfactual changes."""
