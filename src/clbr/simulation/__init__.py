"""Simulated worlds whose true preferences are known."""
