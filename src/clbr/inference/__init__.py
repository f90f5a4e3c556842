"""Inference: artifacts, recommendations, what-if, explanations."""
