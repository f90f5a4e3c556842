"""Report of an experiment: `page` writes it; its parts are results, comparisons, tables, figures and provenance."""
