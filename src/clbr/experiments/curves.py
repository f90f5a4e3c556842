"""A figure of how training went, epoch by epoch."""

from clbr.experiments.drawing import Drawn, new_figure, plain_text, tidy, to_svg
from clbr.experiments.grid import Grid, plain
from clbr.experiments.results import Group, Results, told
from clbr.experiments.tables import short

WIDE = 4
"""Panels beside each other."""


def curves(results: Results) -> Drawn | None:
    """The metric that epochs are chosen on, by epoch: a panel for each group, a line for each seed."""
    groups = [group for group in results.done if any(record.curve for record in group.records.values())]
    if not groups:
        return None
    wide = min(WIDE, len(groups))
    high = -(-len(groups) // wide)
    figure = new_figure(high, wide, (1.9, 1.5))
    panels = list(figure.subplots(high, wide, squeeze=False).flat)
    for axes in panels[len(groups) :]:
        axes.set_visible(False)
    rows = []
    for number, (axes, group) in enumerate(zip(panels, groups, strict=False)):
        for seed, record in group.records.items():
            if record.curve is None:
                continue
            looks = [(e, 100 * v) for e, v in zip(record.curve.epochs, record.curve.tune, strict=True) if v is not None]
            grey = f"{0.15 + 0.55 * (seed % 10) / 10:.2f}"
            axes.plot(*zip(*looks, strict=True), color=grey, linewidth=0.6)
            best = dict(looks).get(record.best_epoch)
            if best is not None:
                axes.plot([record.best_epoch], [best], "o", color="black", markersize=2.2)
            rows.append([f"{group.label}, seed {seed}", str(record.epochs), str(record.best_epoch), f"{best or 0:.2f}"])
        axes.set_title(plain_text("\n".join(_two_lines(group))), fontsize=6.5)
        if number % wide == 0:
            axes.set_ylabel(f"{short(_metric(group))} on tune (%)", fontsize=7)
        if number + wide >= len(groups):
            axes.set_xlabel("epoch", fontsize=7)
        tidy(axes)
        axes.tick_params(labelsize=6)
    caption = f"{results.dataset.name}, tune, {results.seeds}. A line for each seed; dots: the epoch that was chosen."
    columns = ["", "epochs", "best epoch", "best on tune (%)"]
    return Drawn("curves", to_svg(figure, "curves"), Grid("Training curves", caption, columns, plain(rows)))


def _two_lines(group: Group) -> list[str]:
    point = ", ".join(f"{key} {told(value)}" for key, value in group.point.items())
    return [f"{group.model}, {group.arm}", *([point] if point else [])]


def _metric(group: Group) -> str:
    return next(iter(group.records.values())).config.train.metric
