"""Evaluation: ranking, metrics, the protocol that combines them, and significance tests."""
