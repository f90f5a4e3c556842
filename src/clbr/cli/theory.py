"""clbr theory: what a run shows of the paper's lemmas and theorems."""

import json as json_
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from clbr.cli.options import MovedData, Threads, require_path
from clbr.errors import InputError

if TYPE_CHECKING:
    from clbr.counterfactual.noise import Kind, Noise, PassRates, Rate
    from clbr.data.pairs import Relation
    from clbr.graph.edits import EdgeEdits
    from clbr.training.theory import Curves

EPOCHS = 20
EXAMPLE = "Example: clbr theory runs/first --plot curves.png"
THEOREM_2 = (
    "Theorem 2: the information about the task is not observed; the metric of the task is its proxy. Train with each "
    "constraint (--set constraint=adaptive, constant, none), then: clbr compare RUN RUN RUN"
)


HoldOut = Annotated[
    bool,
    typer.Option(
        "--hold-out", help="Hide 10 % of the edges, train without them, measure how often the sampler accepts them."
    ),
]
Like = Annotated[
    Literal["tiny", "youshu", "netease"] | None,
    typer.Option(help="The world that the data were simulated from, if the data folder does not say it; tiny."),
]
Variant = Annotated[
    Literal["plain", "sparser", "denser", "noisier"] | None, typer.Option(help="Variant of that world; plain.")
]


def theory(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run with views: clbr train --paradigm clbr.")],
    hold_out: HoldOut = False,
    epochs: Annotated[int | None, typer.Option(min=1, help="Epochs of the training without hidden edges; 20.")] = None,
    like: Like = None,
    scale: Annotated[float | None, typer.Option(help="Scale of that world; 1.")] = None,
    variant: Variant = None,
    world_seed: Annotated[int | None, typer.Option(min=0, help="Seed of that world; 0.")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Figure of the curves: .png, .svg or .pdf.", callback=require_path)
    ] = None,
    data: MovedData = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    threads: Threads = None,
) -> None:
    """Measure what the paper's theory is about: alignment, entropies, noise of the views, the bound of Theorem 1."""
    from clbr.cli import show
    from clbr.simulation.generate import SimulateConfig
    from clbr.training import theory as measured
    from clbr.training.runtime import use_threads

    if epochs and not hold_out:
        raise InputError("--epochs is for the training without hidden edges: add --hold-out, or leave out --epochs")
    use_threads(threads)
    config, views, edits = measured.read_run(run, data)
    curves = measured.read_curves(run, config)
    if plot:
        _plot(curves, run, plot)
    options = {"like": like, "scale": scale, "variant": variant, "seed": world_seed}
    given = {name: value for name, value in options.items() if value is not None}
    with show.progress("simulating the world again", None):
        world = measured.find_world(run, config, SimulateConfig.make(given, "the world") if given else None)
    noise = measured.measure_noise(world, edits, config.seed) if world else None
    rates = None
    if hold_out:
        with show.progress("training without hidden edges", epochs or EPOCHS) as on_epoch:
            rates = measured.hold_out(run, config, views, epochs or EPOCHS, on_epoch)
    if json:
        typer.echo(json_.dumps(_payload(curves, noise, rates)))
        return
    _show_curves(curves, run)
    if views.redraw:
        typer.echo(f"\n{show.REDRAWN}")
    _show_views(edits, noise, rates, run, Path(config.data))
    typer.echo(f"\n{THEOREM_2}" + (f"\n\nCurves plotted to {plot}" if plot else ""))


def _plot(curves: "Curves | None", run: Path, path: Path) -> None:
    from clbr.training.theory import plot_curves

    if curves is None:
        raise InputError(
            f"{run}: nothing was measured, so there is nothing to plot; train with measure_every above 0, or leave "
            "out --plot"
        )
    plot_curves(curves, path)


def _payload(
    curves: "Curves | None",
    noise: "dict[Relation, dict[Kind, Noise]] | None",
    rates: "dict[Relation, PassRates] | None",
) -> dict[str, object]:
    """Return the JSON output. Values that were not measured, or cannot be, are None."""
    from clbr.counterfactual.noise import bound_factor

    found: dict[str, object] = {"curves": asdict(curves) if curves else None}
    found |= {"noise": None, "bound_factor": None, "hold_out": None}
    if noise is not None:
        found["noise"] = {r: {kind: asdict(x) for kind, x in kinds.items()} for r, kinds in noise.items()}
        found["bound_factor"] = {r: bound_factor(kinds["all"].eta) for r, kinds in noise.items()}
    if rates is not None:
        found["hold_out"] = {r: asdict(x) for r, x in rates.items()}
    return found


def _show_curves(curves: "Curves | None", run: Path) -> None:
    from clbr.cli import show

    if curves is None:
        typer.echo(f"{run}: nothing was measured during training (measure_every = 0, or no epoch yet)")
        return
    columns = [f"epoch {curves.epochs[position]}" for position in curves.milestones]
    rows = [[name, *(_number(values[at]) for at in curves.milestones)] for name, values in curves.values.items()]
    show.table(
        f"Lemmas 1 and 2, measured on the views (best epoch on validation: {curves.best_epoch})", ["", *columns], rows
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _show_views(
    edits: "list[EdgeEdits]",
    noise: "dict[Relation, dict[Kind, Noise]] | None",
    rates: "dict[Relation, PassRates] | None",
    run: Path,
    data: Path,
) -> None:
    """Print the noise of the views and the pass rates of hidden edges, as far as they were measured."""
    from clbr.cli import show
    from clbr.graph.edits import RELATIONS

    if any(view.touches(relation) for view in edits for relation in RELATIONS):
        _show_noise(noise, data)
        if noise is None and rates is None:
            typer.echo(f"On real data the pass rates of hidden edges can be measured: clbr theory {run} --hold-out")
    else:
        typer.echo(f"\n{show.UNEDITED}")
    if rates is not None:
        _show_rates(rates)


def _show_noise(noise: "dict[Relation, dict[Kind, Noise]] | None", data: Path) -> None:
    from clbr.cli import show
    from clbr.graph.edits import RELATION_NAMES

    if noise is None:
        missing = f"{data} does not exist any more (give its new path with --data)"
        typer.echo(
            "\nThe noise of the views can only be measured on simulated data, where true preferences are known; "
            f"{'the data folder does not say that it was simulated' if data.is_dir() else missing}."
        )
        return
    rows = [
        [
            f"{RELATION_NAMES[relation]}, {kind}",
            f"{x.edits:,}",
            f"{x.eta:.3f}",
            f"{x.low:.3f} to {x.high:.3f}",
            f"{x.random_eta:.3f}",
        ]
        for relation, kinds in noise.items()
        for kind, x in kinds.items()
    ]
    columns = ["", "edits", "eta", "95 % interval", "random edits"]
    show.table("\nNoise: the share eta of edits that contradict true preference", columns, rows)
    typer.echo("\nTheorem 1: the number of samples that it needs, as a multiple of the number without noise")
    for relation, kinds in noise.items():
        typer.echo(f"{RELATION_NAMES[relation]}: {_bound(kinds['all'])}")


def _bound(noise: "Noise") -> str:
    """Return the factor of Theorem 1 with its interval, as text."""
    from clbr.counterfactual.noise import bound_factor

    factor, low, high = (bound_factor(eta) for eta in (noise.eta, noise.low, noise.high))
    if factor is None:
        return f"eta = {noise.eta:.3f} is not below 0.5, where Theorem 1 gives no bound"
    end = "unbounded" if high is None else f"{high:,.1f}"
    return f"{factor:,.1f} (95 %: {low:,.1f} to {end})"


def _show_rates(rates: "dict[Relation, PassRates]") -> None:
    from clbr.cli import show
    from clbr.graph.edits import RELATION_NAMES

    def percent(rate: "Rate") -> str:
        return f"{100 * rate.rate:.2f} ({100 * rate.low:.2f} to {100 * rate.high:.2f})"

    rows = [
        [RELATION_NAMES[relation], percent(x.hidden), percent(x.other), "-" if x.ratio is None else f"{x.ratio:.1f}"]
        for relation, x in rates.items()
    ]
    columns = ["", "hidden edges", "other unconnected pairs", "ratio"]
    show.table("\nHold-out: pairs that the addition rule accepts, percent (95 % interval)", columns, rows)
