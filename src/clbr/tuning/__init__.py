"""Hyperparameter search on the validation split."""
