"""Tables of a report: measured metrics, p-values, pair by pair, comparison with the paper, cost; and the CSV file."""

import csv
import json
from collections.abc import Sequence
from io import StringIO
from statistics import mean

from clbr.experiments.report.comparisons import (
    LEVEL,
    SEEDS_TO_TEST,
    Comparison,
    Comparisons,
    Pairwise,
    explain_marks,
)
from clbr.experiments.report.grid import Grid, Text, plain_rows
from clbr.experiments.report.published import published_values, why_incomparable
from clbr.experiments.report.results import Group, Results, common_seeds, format_value

DASH = "-"
MAX_FAILURES = 8
"""Failures that a table lists in its notes."""
SHORT = {"recall": "R", "ndcg": "NDCG"}


def short(metric: str) -> str:
    """Return a metric's name as papers write it: R@20 for recall@20."""
    name, _, k = metric.partition("@")
    return f"{SHORT.get(name, name)}@{k}"


def percent(value: float, sd: float | None = None, signed: bool = False) -> str:
    """Return a share in percent with two decimals, with its standard deviation if there is one."""
    rounded = round(100 * value, 2) + 0.0  # + 0.0 turns -0.0 into 0.0
    text = f"{rounded:{'+' if signed else ''}.2f}"
    return text if sd is None else f"{text} ± {100 * sd:.2f}"


def measured_table(results: Results, comparisons: Comparisons, mark: str = "Bold") -> Grid:
    """Return the main table: mean, standard deviation and difference from the reference, a row for each group."""
    spec = results.spec
    keys = list(dict.fromkeys(key for group in results.groups for key in group.point))
    rows = []
    for number, group in enumerate(results.groups):
        point = [format_value(group.point[key]) if key in group.point else "" for key in keys]
        cells = [_score(group, metric, comparisons.get((number, metric))) for metric in spec.metrics]
        rows.append([*map(Text, [group.model, group.variant, *point, _seeds(group)]), *cells])
    columns = ["model", "variant", *keys, "seeds", *(short(metric) for metric in spec.metrics)]
    caption = _caption(results, comparisons, mark)
    # All columns are left-aligned: the means are then below each other, with or without a difference behind them.
    return Grid(spec.title, caption, columns, rows, len(columns), _failures(results.groups))


def _score(group: Group, metric: str, comparison: Comparison | None) -> Text:
    if not group.records:
        return Text("failed" if group.failed else DASH)
    text = percent(group.mean(metric), group.sd(metric))
    if comparison is None:
        return Text(text)
    dagger = " †" if comparison.is_significant_across_seeds else ""
    return Text(f"{text} ({percent(comparison.difference, signed=True)}){dagger}", comparison.is_significant)


def _seeds(group: Group) -> str:
    total = len(group.cells)
    return f"{total}" if len(group.records) == total else f"{len(group.records)} of {total}"


def _failures(groups: Sequence[Group]) -> list[str]:
    seeds_of: dict[tuple[str, str], list[str]] = {}
    for group in groups:
        for seed, error in group.failed.items():
            seeds_of.setdefault((group.label, error), []).append(str(seed))
    notes = [f"Failed: {label}, seed {', '.join(seeds)}: {error}" for (label, error), seeds in seeds_of.items()]
    more = [f"Further failures: {len(notes) - MAX_FAILURES}."] if len(notes) > MAX_FAILURES else []
    return notes[:MAX_FAILURES] + more


def describe_test(results: Results) -> str:
    """Return the start of a caption: the data, the split, the number of users and of seeds."""
    users = len(set(results.dataset.test[:, 0].tolist()))
    return f"{results.dataset.name}, test, {users:,} users, {results.seeds}"


def error_bars(groups: Sequence[Group]) -> str:
    """Return the sentence of a figure's caption that explains its error bars; "" if it has none."""
    return " Bars: standard deviation over seeds." if any(len(group.records) > 1 for group in groups) else ""


def by_group(title: str, caption: str, groups: Sequence[Group], metrics: Sequence[str]) -> Grid:
    """Return the numbers of a figure: the means of each group."""
    rows = [
        [group.label, str(len(group.records)), *(percent(group.mean(one), group.sd(one)) for one in metrics)]
        for group in groups
    ]
    return Grid(title, caption, ["", "seeds", *(f"{short(metric)} (%)" for metric in metrics)], plain_rows(rows))


def _caption(results: Results, comparisons: Comparisons, mark: str) -> str:
    reference = results.spec.reference_label
    parts = [f"{describe_test(results)}. Percent: mean"]
    if any(len(group.records) > 1 for group in results.done):
        parts[0] += " ± standard deviation over seeds"
    if comparisons:
        parts[0] += f" (difference from {reference}, over the seeds that are done in both)."
        parts.append(explain_marks(comparisons, reference, mark))
        if any(one.p.seeds is not None for one in comparisons.values()):
            test = f"a paired t-test over the means of the seeds (with {SEEDS_TO_TEST} seeds or more)"
            parts.append(f"†: significantly different by {test}.")
    else:
        parts[0] += "."
    reason = why_incomparable(results.dataset)
    if reason and (results.spec.published or "part of" in reason):
        parts.append(reason)
    return " ".join(parts)


def p_value_table(results: Results, comparisons: Comparisons) -> Grid | None:
    """Return the p-values of the tests; None if nothing was compared."""
    if not comparisons:
        return None
    rows = []
    for number, group in enumerate(results.groups):
        compared = [comparisons.get((number, metric)) for metric in results.spec.metrics]
        if any(compared):
            rows.append([Text(group.label), *(_p_value(one) for one in compared)])
    caption = f"{describe_test(results)}. Corrected p-values, over users and seeds"
    if any(one.p.both is None for one in comparisons.values()):
        caption += "; in brackets: over users, for one seed (valid for these trained models only)"
    if any(one.p.seeds is not None for one in comparisons.values()):
        caption += "; after the slash: over seeds"
    caption += "."
    return Grid("Tests", caption, ["", *(short(metric) for metric in results.spec.metrics)], rows)


def _p_value(one: Comparison | None) -> Text:
    if one is None:
        return Text(DASH)
    first = f"({one.p.users:.2g})" if one.p.both is None else f"{one.p.both:.2g}"
    return Text(first + ("" if one.p.seeds is None else f" / {one.p.seeds:.2g}"), one.is_significant)


def pairs_table(results: Results, pairwise: Pairwise, mark: str = "Bold") -> Grid | None:
    """Return the differences of every two groups with their p-values; None if nothing was compared."""
    if not pairwise:
        return None
    rows = []
    for first, second in dict.fromkeys((first, second) for first, second, _ in pairwise):
        one, other = results.groups[first], results.groups[second]
        cells = [_difference(pairwise[first, second, metric]) for metric in results.spec.metrics]
        rows.append([*map(Text, [one.label, other.label, str(len(common_seeds(one, other)))]), *cells])
    caption = f"{describe_test(results)}. Percent: the first minus the second, over the seeds that are done in both"
    if tested := next(iter(pairwise.values())).tested:
        caption += (
            f"; in brackets the p-value over users and seeds, after Holm's correction for {tested} comparisons"
            f" (more than in the table above make larger p-values). {mark}: below {LEVEL}."
        )
    else:
        caption += ". With one seed nothing is tested."
    columns = ["", "minus", "seeds", *(short(metric) for metric in results.spec.metrics)]
    return Grid("Pair by pair", caption, columns, rows, 2)


def _difference(one: Comparison) -> Text:
    p = "" if one.p.both is None else f" (p {one.p.both:.2g})"
    return Text(percent(one.difference, signed=True) + p, one.is_significant)


def published_table(results: Results) -> Grid | None:
    """Return measured and published results and their differences; None if there is nothing to compare with."""
    table = results.spec.published
    if table is None or why_incomparable(results.dataset):
        return None
    rows, stated = [], []
    for group in results.groups:
        values = {}
        if not group.point:
            values = published_values(table, results.dataset.name, group.model, group.variant)
        if not values:
            continue
        cells = []
        for metric in results.spec.metrics:
            theirs = values.get(metric)
            mine = group.mean(metric) if group.records else None
            cells += [
                percent(mine) if mine is not None else DASH,
                percent(*theirs) if theirs else DASH,
                percent(mine - theirs.mean, signed=True) if mine is not None and theirs else DASH,
            ]
            stated += [theirs] if theirs else []
        rows.append([group.model, group.variant, *cells])
    if not stated:
        return None
    columns, upper = ["model", "variant"], ["", ""]
    for metric in results.spec.metrics:
        columns += [short(metric), "published", "difference"]
        upper += 3 * [short(metric)]
    deviation = " ± standard deviation" if any(value.sd is not None for value in stated) else ""
    caption = f"{describe_test(results)}. Percent. Published: mean{deviation}, from the CLBR paper."
    notes = [] if table == "constraint" else _other_constraints(results)  # its variants are named after constraints
    return Grid(f"{results.spec.title}, compared with the paper", caption, columns, plain_rows(rows), 2, notes, upper)


def _other_constraints(results: Results) -> list[str]:
    """Return notes on the groups whose views have another constraint than the paper's."""
    labels_of: dict[str, list[str]] = {}
    for group in results.groups:
        config = group.cells[0].cell.config
        if config.paradigm == "clbr" and config.views and config.views.constraint != "adaptive":
            labels_of.setdefault(config.views.constraint, []).append(group.label)
    return [
        f"Constraint {name}, not the paper's adaptive one: {'; '.join(labels)}." for name, labels in labels_of.items()
    ]


def cost_table(results: Results) -> Grid:
    """Return epochs, seconds and memory of a cell, as means over the seeds of each group."""
    rows = []
    for group in results.done:
        records = list(group.records.values())
        seconds, epochs = mean(one.seconds for one in records), mean(one.epochs for one in records)
        best, memory = mean(one.best_epoch for one in records), max(one.memory for one in records)
        per_epoch = f"{seconds / epochs:,.2f}" if epochs else DASH
        numbers = [f"{epochs:.1f}", f"{best:.1f}", f"{seconds:,.1f}", per_epoch, f"{memory:,.0f}"]
        rows.append([group.label, str(len(records)), *numbers])
    total, selection = (
        sum(one.seconds for one in records.values()) for records in (results.records, results.selection_records)
    )
    caption = (
        f"{results.dataset.name}, {results.seeds}. Means over seeds; memory: the maximum. Wall-clock time, which other"
        f" programs on the machine influence: for ratios of speed see benchmarks/. Total: {total:,.0f} s"
    )
    caption += f", and {selection:,.0f} s for selection models that are in no row." if selection else "."
    columns = ["", "seeds", "epochs", "best epoch", "seconds", "seconds per epoch", "memory, MiB"]
    return Grid("Cost", caption, columns, plain_rows(rows))


COLUMNS = (
    *("data", "model", "variant", "point", "metric", "seeds", "failed", "mean", "sd"),
    *("difference", "p", "p_by_user", "p_across_seeds", "published", "published_sd", "difference_to_published"),
)


def to_csv(results: Results, comparisons: Comparisons) -> str:
    """Return a line for each group and metric, with all digits; shares, not percent."""
    out = StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(COLUMNS)
    spec, data = results.spec, results.dataset.name
    for number, group in enumerate(results.groups):
        point = json.dumps(group.point) if group.point else ""
        for metric in spec.metrics:
            published = None
            if spec.published and not group.point and not why_incomparable(results.dataset):
                published = published_values(spec.published, data, group.model, group.variant).get(metric)
            measured = group.mean(metric) if group.records else None
            sd = group.sd(metric) if group.records else None
            one = comparisons.get((number, metric))
            tests = (one.difference, *one.p) if one else (None, None, None, None)
            stated = (published.mean, published.sd) if published else (None, None)
            difference = measured - published.mean if measured is not None and published else None
            names = (data, group.model, group.variant, point, metric, len(group.records), len(group.failed))
            lines.writerow([*names, measured, sd, *tests, *stated, difference])
    return out.getvalue()
