"""The results as CSV, for whoever goes on computing."""

import csv
import json
from io import StringIO

from clbr.experiments.comparisons import Comparisons
from clbr.experiments.published import comparable, published
from clbr.experiments.results import Results

COLUMNS = (
    *("data", "model", "arm", "point", "metric", "seeds", "failed", "mean", "sd"),
    *("difference", "p", "p_by_user", "p_across_seeds", "published", "published_sd", "difference_to_published"),
)


def to_csv(results: Results, comparisons: Comparisons) -> str:
    """A line for each group and metric, with every digit; shares, not percent."""
    out = StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(COLUMNS)
    for number, group in enumerate(results.groups):
        for metric in results.spec.metrics:
            theirs = None
            if results.spec.published and not group.point and not comparable(results.dataset):
                theirs = published(results.spec.published, results.dataset.name, group.model, group.arm).get(metric)
            mine = group.mean(metric) if group.records else None
            sd = group.sd(metric) if group.records else None
            one = comparisons.get((number, metric))
            tested = (one.difference, *one.p) if one else (None, None, None, None)
            beside = (theirs.mean, theirs.sd) if theirs else (None, None)
            apart = mine - theirs.mean if mine is not None and theirs else None
            names = (results.dataset.name, group.model, group.arm, json.dumps(group.point) if group.point else "")
            lines.writerow([*names, metric, len(group.records), len(group.failed), mine, sd, *tested, *beside, apart])
    return out.getvalue()
