"""clbr data: get, import, simulate and describe data sets."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from clbr.cli.options import out_option, require_path
from clbr.errors import InputError

if TYPE_CHECKING:
    from clbr.data.tables import Imported

app = typer.Typer(
    help="Get, import, simulate and describe data sets. A data set is a folder: the argument DATA of other commands.",
    no_args_is_help=True,
)

IMPORT_EXAMPLE = (
    "Example: clbr data import --user-bundle carts.csv --user-item bought.csv --bundle-item contents.csv "
    "--columns user=customer,bundle=cart,item=sku --out shop"
)
COLUMNS_HELP = (
    "Your names of the columns user, bundle, item, time, split and name. For all tables: user=customer. For one table "
    "(user_bundle, user_item, bundle_item, user_names, bundle_names, item_names): user_item.user=buyer. Several: "
    "user=who,item=sku with commas, or --columns again."
)
SPLIT_HELP = (
    "random: shares of each user's pairs. leave-one-out: one pair of each user for test, one for validation, for small "
    "data. last: the same by the column time. given: your own, by the column split (train, validation or test)."
)
Out = Annotated[Path, out_option("Folder to write; must be new or empty.", show_default=False)]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing data folder.")]
Format = Annotated[Literal["text", "parquet"], typer.Option(help="Files to write; Parquet is smaller and read faster.")]
HideItems = Annotated[
    bool,
    typer.Option(
        "--hide-held-out-items",
        help="Remove from user-item the items that came with the user's validation and test bundles only.",
    ),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="The same seed gives the same result.")]


@app.command("import", epilog=IMPORT_EXAMPLE)
def import_(
    user_bundle: Annotated[Path, typer.Option(help="Who chose which bundle: text or Parquet.", show_default=False)],
    user_item: Annotated[Path, typer.Option(help="Who chose which item.", show_default=False)],
    bundle_item: Annotated[Path, typer.Option(help="What is in a bundle.", show_default=False)],
    out: Out,
    columns: Annotated[list[str] | None, typer.Option(help=COLUMNS_HELP, show_default=False)] = None,
    user_names: Annotated[Path | None, typer.Option(help="Table with the columns user and name.")] = None,
    bundle_names: Annotated[Path | None, typer.Option(help="Table with the columns bundle and name.")] = None,
    item_names: Annotated[Path | None, typer.Option(help="Table with the columns item and name.")] = None,
    split: Annotated[Literal["random", "leave-one-out", "last", "given"], typer.Option(help=SPLIT_HELP)] = "random",
    validation: Annotated[float, typer.Option(help="Share of a user's pairs for validation (random split).")] = 0.1,
    test: Annotated[float, typer.Option(help="Share of a user's pairs for test (random split).")] = 0.2,
    seed: Seed = 0,
    hide_held_out_items: HideItems = False,
    name: Annotated[str | None, typer.Option(help="Name of the data set; by default the folder's name.")] = None,
    format: Format = "text",
    force: Force = False,
) -> None:
    """Make a data set from three tables with a header, and check it. Ids are text or whole numbers.

    Text tables (.csv, .tsv, .txt) are separated by comma, tab, semicolon, | or space, as their header shows.
    """
    from clbr.data.checks import DataWarning
    from clbr.data.folder import is_data_folder, save
    from clbr.data.split import SplitConfig
    from clbr.data.tables import import_tables
    from clbr.files import require_free

    require_free(out, force, is_data_folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # they are printed with the statistics
        imported = import_tables(
            user_bundle,
            user_item,
            bundle_item,
            name=name or out.resolve().name,
            columns=parse_columns(columns or []),
            user_names=user_names,
            bundle_names=bundle_names,
            item_names=item_names,
            split=SplitConfig.make({"method": split, "validation": validation, "test": test, "seed": seed}, "split"),
            hide_held_out_items=hide_held_out_items,
        )
    save(imported.dataset, out, origin=imported.origin.to_toml(), force=force, format=format)
    _show_import(imported, out)


def _show_import(imported: "Imported", out: Path) -> None:
    from clbr.cli import show

    origin = imported.origin
    rows = [[t, origin.tables[t], f"{origin.rows[t]:,}", f"{origin.merged[t]:,}"] for t in origin.tables]
    show.table(f"Imported to {out}", ["table", "file", "rows", "repeated, merged"], rows)
    if imported.unmatched_names:
        typer.echo(f"{imported.unmatched_names:,} names were left out: their ids are in none of the three tables")
    if origin.hide_held_out_items:
        share = origin.hidden / (origin.hidden + len(imported.dataset.ui))
        typer.echo(f"{origin.hidden:,} user-item pairs ({share:.1%}) came with held-out bundles and were removed")
    typer.echo("")
    show.describe([imported.description])


@app.command(epilog="Example: clbr data get Youshu --url https://example.org/bundles.tgz --sha256 0123...")
def get(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Its name in the archive: Youshu, NetEase, iFashion, ...")
    ],
    url: Annotated[str, typer.Option(help="Address of the zip or tar archive.", show_default=False)],
    out: Annotated[Path | None, out_option("Folder to write; by default NAME.")] = None,
    sha256: Annotated[str | None, typer.Option(help="Expected checksum of the archive.")] = None,
    force: Force = False,
) -> None:
    """Fetch a public data set, unpack it and check it against the published counts."""
    from clbr.cli import show
    from clbr.data.describe import compare_published
    from clbr.data.fetch import get as fetch

    with show.progress(f"fetching {name}", None) as on_progress:
        dataset = fetch(name, url, out or Path(name), checksum=sha256, force=force, on_progress=on_progress)
    typer.echo(f"{out or name}: {dataset!r}")
    published = compare_published(dataset)
    typer.echo(f"{published.source}: {published.note}" if published else f"nothing is published under the name {name}")


@app.command(epilog="Example: clbr data simulate --like tiny --out shop")
def simulate(
    out: Out,
    like: Annotated[
        Literal["youshu", "netease", "tiny"],
        typer.Option(help="Data to resemble; tiny is a small shop with names."),
    ] = "tiny",
    scale: Annotated[float, typer.Option(help="Multiple of its numbers of users, bundles, items and pairs.")] = 1.0,
    variant: Annotated[
        Literal["plain", "sparser", "denser", "noisier"],
        typer.Option(help="A version of other density or noise."),
    ] = "plain",
    seed: Seed = 0,
    format: Format = "text",
    force: Force = False,
) -> None:
    """Simulate a data set with known true preferences (clbr.simulate in Python gives these too).

    Pairs are written as they are drawn: memory is needed for the nodes, not for the pairs.
    """
    from clbr.cli import show
    from clbr.data.folder import is_data_folder
    from clbr.files import require_free
    from clbr.simulation.generate import SimulateConfig, write_world

    config = SimulateConfig.make({"like": like, "scale": scale, "variant": variant, "seed": seed}, "simulate")
    require_free(out, force, is_data_folder)
    with show.progress(f"simulating {like}", None) as on_progress:
        summary = write_world(config, out, format=format, force=force, on_progress=on_progress)
    typer.echo(f"{out}: {summary}")


@app.command(epilog="Example: clbr data describe Youshu shop --plot degrees.png")
def describe(
    data: Annotated[list[Path], typer.Argument(metavar="DATA", help="One data folder, or several to compare.")],
    json: Annotated[bool, typer.Option("--json", help="One line of JSON per data set.")] = False,
    plot: Annotated[
        Path | None, typer.Option(help="Plot of degrees and held-out pairs: .png, .svg or .pdf.", callback=require_path)
    ] = None,
) -> None:
    """Show statistics (the counts of the paper's Table 1, densities, degrees, cold start) and warn of likely faults."""
    from clbr.cli import show
    from clbr.data.describe import describe as measure
    from clbr.data.folder import load

    datasets = [load(folder) for folder in data]
    descriptions = [measure(dataset) for dataset in datasets]
    if plot:
        from clbr.data.describe import plot as draw

        draw(datasets, descriptions, plot)
    if json:
        for description in descriptions:
            typer.echo(description.to_json())
    else:
        show.describe(descriptions)
        if plot:
            typer.echo(f"\nPlotted to {plot}")


def parse_columns(given: list[str]) -> dict[str, str]:
    """key=value texts, repeated or separated by commas, as a mapping."""
    pairs = {}
    for text in (part for one in given for part in one.split(",")):
        key, equals, value = text.partition("=")
        if not (key and equals and value):
            raise InputError(f"--columns {text}: expected role=column, for instance user=customer")
        pairs[key.strip().replace("-", "_")] = value.strip()
    return pairs
