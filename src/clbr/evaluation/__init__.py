"""Ranking, metrics, and the protocol that joins them."""
