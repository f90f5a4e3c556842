"""Sparse graph engine: the user-bundle-item graph, edits of its edges, and linear operators on node vectors."""
