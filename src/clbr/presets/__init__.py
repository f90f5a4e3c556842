"""Settings that are known to be good, one file for each model and data set."""
