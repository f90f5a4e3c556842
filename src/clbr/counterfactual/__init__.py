"""Counterfactual learning: views, samplers, constraint, training strategies, diagnostics."""
