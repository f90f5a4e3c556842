"""Recommenders: one file each, behind one interface."""
