"""clbr theory."""

import json as json_
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from clbr.cli.options import MovedData
from clbr.cli.train import Threads
from clbr.errors import InputError

if TYPE_CHECKING:
    from clbr.counterfactual.noise import Kind, Noise, PassRates, Rate
    from clbr.data.pairs import Relation
    from clbr.training.theory import Curves

EPOCHS = 20
EXAMPLE = "Example: clbr theory runs/first --plot curves.png"
THEOREM_2 = (
    "Theorem 2: the task's information is not observed; the task's own metric stands for it. Train under each "
    "constraint (--set constraint=adaptive, constant, none), then: clbr compare RUN RUN RUN"
)


def theory(
    run: Annotated[Path, typer.Argument(help="A run with views: clbr train --paradigm clbr.")],
    hold_out: Annotated[
        bool, typer.Option("--hold-out", help="Hide 10 % of the edges, train without them, see how often they pass.")
    ] = False,
    epochs: Annotated[int | None, typer.Option(min=1, help="Of the training without hidden edges; 20.")] = None,
    like: Annotated[
        Literal["tiny", "youshu", "netease"] | None,
        typer.Option(help="The world that the data were simulated from, where the data folder does not say; tiny."),
    ] = None,
    scale: Annotated[float | None, typer.Option(help="Of that world; 1.")] = None,
    variant: Annotated[
        Literal["plain", "sparser", "denser", "noisier"] | None, typer.Option(help="Of that world; plain.")
    ] = None,
    world_seed: Annotated[int | None, typer.Option(min=0, help="Of that world; 0.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Picture of the curves: .png, .svg or .pdf.")] = None,
    data: MovedData = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    threads: Threads = None,
) -> None:
    """Measure what the paper's theory speaks of: alignment and entropies, the noise of the views, Theorem 1's bound."""
    from clbr.cli import show
    from clbr.graph.edits import RELATIONS
    from clbr.simulation.generate import SimulateConfig
    from clbr.training import theory as measured
    from clbr.training.runtime import use_threads

    if epochs and not hold_out:
        raise InputError("--epochs are those of the training without hidden edges: add --hold-out, or leave it out")
    epochs = epochs or EPOCHS
    use_threads(threads)
    config, views, edits = measured.read_run(run, data)
    curves = measured.read_curves(run, config)
    if plot:
        _plot(curves, run, plot)
    options = {"like": like, "scale": scale, "variant": variant, "seed": world_seed}
    given = {name: value for name, value in options.items() if value is not None}
    with show.progress("rebuilding the world", None):
        world = measured.find_world(run, config, SimulateConfig.make(given, "the world") if given else None)
    noise = measured.noise_of_run(world, edits, config.seed) if world else None
    rates = None
    if hold_out:
        with show.progress("training without hidden edges", epochs) as hear:
            rates = measured.hold_out(run, config, views, epochs, hear)
    if json:
        typer.echo(json_.dumps(_plain(curves, noise, rates)))
        return
    _show_curves(curves, run)
    if views.redraw:
        typer.echo(f"\n{show.REDRAWN}")
    if any(view.touches(relation) for view in edits for relation in RELATIONS):
        _show_noise(noise, Path(config.data))
        if noise is None and not hold_out:
            typer.echo(f"What can be measured on real data: clbr theory {run} --hold-out")
    else:
        typer.echo(f"\n{show.UNEDITED}")
    if rates is not None:
        _show_rates(rates)
    typer.echo(f"\n{THEOREM_2}")
    if plot:
        typer.echo(f"\nCurves drawn to {plot}")


def _plot(curves: "Curves | None", run: Path, path: Path) -> None:
    from clbr.training.theory import plot_curves

    if curves is None:
        raise InputError(f"{run}: nothing was measured, so there is nothing to draw; train with measure_every above 0")
    plot_curves(curves.epochs, curves.values, curves.best_epoch, path)


def _plain(
    curves: "Curves | None",
    noise: "dict[Relation, dict[Kind, Noise]] | None",
    rates: "dict[Relation, PassRates] | None",
) -> dict[str, object]:
    """What was found, None where it was not looked for or cannot be known."""
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
        typer.echo(f"{run}: nothing was measured as it learned (measure_every = 0, or no epoch yet)")
        return
    columns = [f"epoch {curves.epochs[at]}" for at in curves.moments]
    rows = [[name, *(_number(values[at]) for at in curves.moments)] for name, values in curves.values.items()]
    show.table(
        f"Lemmas 1 and 2, measured on the views (best epoch on validation: {curves.best_epoch})", ["", *columns], rows
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _show_noise(noise: "dict[Relation, dict[Kind, Noise]] | None", data: Path) -> None:
    from clbr.cli import show
    from clbr.graph.edits import RELATION_NAMES

    if noise is None:
        gone = f"{data} is no longer there (say where it lies with --data)"
        typer.echo(
            "\nThe noise of the views can be measured on a simulated world, whose truth is known; "
            f"{'the data folder tells of none' if data.is_dir() else gone}."
        )
        return
    rows = [
        [
            f"{RELATION_NAMES[relation]}, {kind}",
            f"{x.edits:,}",
            f"{x.eta:.3f}",
            f"{x.low:.3f} to {x.high:.3f}",
            f"{x.chance:.3f}",
        ]
        for relation, kinds in noise.items()
        for kind, x in kinds.items()
    ]
    columns = ["", "edits", "eta", "95 % interval", "by chance"]
    show.table("\nNoise: the share eta of edits that contradict true preference", columns, rows)
    typer.echo("\nTheorem 1: the samples it asks for, as a multiple of those without noise")
    for relation, kinds in noise.items():
        typer.echo(f"{RELATION_NAMES[relation]}: {_bound(kinds['all'])}")


def _bound(noise: "Noise") -> str:
    from clbr.counterfactual.noise import bound_factor

    factor, least, most = (bound_factor(eta) for eta in (noise.eta, noise.low, noise.high))
    if factor is None:
        return f"eta = {noise.eta:.3f} is not below 0.5, and there Theorem 1 says nothing"
    end = "without end" if most is None else f"{most:,.1f}"
    return f"{factor:,.1f} (95 %: {least:,.1f} to {end})"


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
    show.table("\nHold-out: pairs that the rule of addition passes, percent (95 % interval)", columns, rows)
