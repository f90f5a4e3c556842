"""The tables of a report: what was measured, beside the published figures, and what it cost."""

import csv
import json
from collections.abc import Sequence
from io import StringIO
from statistics import mean

from clbr.evaluation.significance import ONE_SEED
from clbr.experiments.report.comparisons import SEEDS_TO_TEST, Comparison, Comparisons, explain_marks
from clbr.experiments.report.grid import Grid, Text, plain
from clbr.experiments.report.published import comparable, published
from clbr.experiments.report.results import Group, Results, told

DASH = "-"
SHOWN = 8
"""Of what failed."""
SHORT = {"recall": "R", "ndcg": "NDCG"}


def short(metric: str) -> str:
    """A metric as papers write it."""
    name, _, k = metric.partition("@")
    return f"{SHORT.get(name, name)}@{k}"


def percent(value: float, sd: float | None = None, signed: bool = False) -> str:
    """A share in percent, with its standard deviation if there is one."""
    shown = round(100 * value, 2) + 0.0  # no minus before zero
    text = f"{shown:{'+' if signed else ''}.2f}"
    return text if sd is None else f"{text} ± {100 * sd:.2f}"


def measured(results: Results, comparisons: Comparisons, mark: str = "in bold") -> Grid:
    """Model by model, arm by arm, point by point: mean, deviation and difference from the base arm."""
    spec = results.spec
    keys = list(dict.fromkeys(key for group in results.groups for key in group.point))
    rows = []
    for number, group in enumerate(results.groups):
        names = [group.model, group.arm, *(told(group.point[key]) if key in group.point else "" for key in keys)]
        cells = [_score(group, metric, comparisons.get((number, metric))) for metric in spec.metrics]
        rows.append([*map(Text, names), Text(_seeds(group)), *cells])
    columns = ["model", "arm", *keys, "seeds", *(short(metric) for metric in spec.metrics)]
    caption = _caption(results, comparisons, mark)
    # All to the left: means then stand below each other, whether a difference follows or not.
    return Grid(spec.title, caption, columns, rows, len(columns), _failures(results.groups))


def _score(group: Group, metric: str, comparison: Comparison | None) -> Text:
    if not group.records:
        return Text("failed" if group.failed else DASH)
    text = percent(group.mean(metric), group.sd(metric))
    if comparison is None:
        return Text(text)
    dagger = " †" if comparison.holds_across_seeds else ""
    return Text(f"{text} ({percent(comparison.difference, signed=True)}){dagger}", comparison.holds)


def _seeds(group: Group) -> str:
    wanted = len(group.placed)
    return f"{wanted}" if len(group.records) == wanted else f"{len(group.records)} of {wanted}"


def _failures(groups: Sequence[Group]) -> list[str]:
    alike: dict[tuple[str, str], list[str]] = {}
    for group in groups:
        for seed, why in group.failed.items():
            alike.setdefault((group.label, why), []).append(str(seed))
    notes = [f"Failed: {label}, seed {', '.join(seeds)}: {why}" for (label, why), seeds in alike.items()]
    return notes[:SHOWN] + ([f"Failed in other ways besides: {len(notes) - SHOWN}."] if len(notes) > SHOWN else [])


def standing(results: Results) -> str:
    """What every caption says: the split, the data and the seeds."""
    users = len(set(results.dataset.test[:, 0].tolist()))
    return f"{results.dataset.name}, test, {users:,} users, {results.seeds}"


def bars(groups: Sequence[Group]) -> str:
    """What a figure's caption says of its bars, if it has any."""
    return " Bars: standard deviation over seeds." if any(len(group.records) > 1 for group in groups) else ""


def by_group(title: str, caption: str, groups: Sequence[Group], metrics: Sequence[str]) -> Grid:
    """The numbers of a figure: each group's means."""
    rows = [
        [group.label, str(len(group.records)), *(percent(group.mean(one), group.sd(one)) for one in metrics)]
        for group in groups
    ]
    return Grid(title, caption, ["", "seeds", *(f"{short(metric)} (%)" for metric in metrics)], plain(rows))


def _caption(results: Results, comparisons: Comparisons, mark: str) -> str:
    base = results.spec.base
    parts = [f"{standing(results)}. Percent: mean"]
    if any(len(group.records) > 1 for group in results.done):
        parts[0] += " ± standard deviation over seeds"
    if comparisons:
        parts[0] += f" (difference from {base} over the seeds that both have done)."
        parts.append(explain_marks(comparisons, base, mark))
        if any(one.p.seeds is not None for one in comparisons.values()):
            parts.append(f"†: differs by a paired t-test over the seeds' means (made from {SEEDS_TO_TEST} seeds up).")
    else:
        parts[0] += "."
    why = comparable(results.dataset)
    if why and (results.spec.published or "part of" in why):
        parts.append(why)
    return " ".join(parts)


def p_values(results: Results, comparisons: Comparisons) -> Grid | None:
    """The p-values behind what stands in bold; None where nothing was compared."""
    if not comparisons:
        return None
    rows = []
    for number, group in enumerate(results.groups):
        found = [comparisons.get((number, metric)) for metric in results.spec.metrics]
        if any(found):
            rows.append([Text(group.label), *(_test(one) for one in found)])
    caption = f"{standing(results)}. Corrected p-values, over users and seeds"
    if any(one.p.both is None for one in comparisons.values()):
        caption += f"; in brackets user by user ({ONE_SEED})"
    if any(one.p.seeds is not None for one in comparisons.values()):
        caption += "; after the stroke across seeds"
    caption += "."
    return Grid("Tests", caption, ["", *(short(metric) for metric in results.spec.metrics)], rows)


def _test(one: Comparison | None) -> Text:
    if one is None:
        return Text(DASH)
    first = f"({one.p.users:.2g})" if one.p.both is None else f"{one.p.both:.2g}"
    return Text(first + ("" if one.p.seeds is None else f" / {one.p.seeds:.2g}"), one.holds)


def beside_published(results: Results) -> Grid | None:
    """Measured and published figures and their difference; None where there is nothing to hold them against."""
    table = results.spec.published
    if table is None or comparable(results.dataset):
        return None
    rows, stated = [], []
    for group in results.groups:
        figures = published(table, results.dataset.name, group.model, group.arm) if not group.point else {}
        if not figures:
            continue
        cells = []
        for metric in results.spec.metrics:
            theirs = figures.get(metric)
            mine = group.mean(metric) if group.records else None
            cells += [
                percent(mine) if mine is not None else DASH,
                percent(*theirs) if theirs else DASH,
                percent(mine - theirs.mean, signed=True) if mine is not None and theirs else DASH,
            ]
            stated += [theirs] if theirs else []
        rows.append([group.model, group.arm, *cells])
    if not stated:
        return None
    columns, over = ["model", "arm"], ["", ""]
    for metric in results.spec.metrics:
        columns += [short(metric), "published", "difference"]
        over += 3 * [short(metric)]
    deviation = " ± standard deviation" if any(figure.sd is not None for figure in stated) else ""
    caption = f"{standing(results)}. Percent. Published: the CLBR paper's table of the same question{deviation}."
    notes = [] if table == "constraint" else _other_constraints(results)  # there it is what the arms are called after
    return Grid(f"{results.spec.title}, beside the paper", caption, columns, plain(rows), 2, notes, over)


def _other_constraints(results: Results) -> list[str]:
    """Where views are under another constraint than the paper's."""
    alike: dict[str, list[str]] = {}
    for group in results.groups:
        config = group.placed[0].cell.config
        if config.paradigm == "clbr" and config.views and config.views.constraint != "adaptive":
            alike.setdefault(config.views.constraint, []).append(group.label)
    return [f"Constraint {name}, not the paper's adaptive one: {'; '.join(groups)}." for name, groups in alike.items()]


def cost(results: Results) -> Grid:
    """Epochs, seconds and memory, a cell on the average."""
    rows = []
    for group in results.done:
        records = list(group.records.values())
        seconds, epochs = mean(one.seconds for one in records), mean(one.epochs for one in records)
        best, memory = mean(one.best_epoch for one in records), max(one.memory for one in records)
        per = f"{seconds / epochs:,.2f}" if epochs else DASH
        numbers = [f"{epochs:.1f}", f"{best:.1f}", f"{seconds:,.1f}", per, f"{memory:,.0f}"]
        rows.append([group.label, str(len(records)), *numbers])
    shown = results.records
    whole, judging = (sum(one.seconds for one in some.values()) for some in (shown, results.judges))
    caption = (
        f"{results.dataset.name}, {results.seeds}. Means over seeds, of memory the most. Wall clock, with whatever else"
        f" the machine had to do: for ratios of speed see benchmarks/. Together {whole:,.0f} s"
    )
    caption += f", and {judging:,.0f} s of models in no row that judge pairs for views." if judging else "."
    columns = ["", "seeds", "epochs", "best epoch", "seconds", "seconds an epoch", "memory, MiB"]
    return Grid("Cost", caption, columns, plain(rows))


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
