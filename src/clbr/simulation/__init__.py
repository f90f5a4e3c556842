"""Simulated data sets with known true preferences."""
