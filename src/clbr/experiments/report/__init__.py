"""Reports of an experiment: results, tests, tables, figures, one page."""
