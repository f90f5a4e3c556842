"""clbr update."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clbr.cli.data import parse_columns
from clbr.cli.options import Threads
from clbr.cli.recommend import ArtifactFolder

if TYPE_CHECKING:
    from clbr.inference.update import Updated

EXAMPLE = "Example: clbr update artifact --user-bundle new_carts.csv --bundle-item new_contents.csv --out updated"


def update(
    artifact: ArtifactFolder,
    out: Annotated[Path, typer.Option("--out", help="Folder for the updated artifact; new or empty.")],
    user_bundle: Annotated[Path | None, typer.Option(help="New choices of bundles: CSV, TSV or Parquet.")] = None,
    user_item: Annotated[Path | None, typer.Option(help="New choices of items.")] = None,
    bundle_item: Annotated[Path | None, typer.Option(help="New contents of bundles.")] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(help="Your column names: user=customer,bundle=cart; for one table: user_item.user=buyer."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an artifact that is there.")] = False,
    threads: Threads = None,
) -> None:
    """Add new users, bundles, items and pairs to an artifact in seconds, without training it again.

    Tables are read as by clbr data import. Only the vectors of new nodes are fitted; known nodes change by propagation
    over the new pairs. The model card says how much was added since training, and when to train again.
    """
    from clbr.cli import show
    from clbr.files import require_free
    from clbr.inference.artifact import open_artifact
    from clbr.inference.export import is_artifact, save_artifact
    from clbr.inference.update import update as add
    from clbr.training.runtime import use_threads

    use_threads(threads)
    opened = open_artifact(artifact)
    require_free(out, force, is_artifact)
    tables = {"user_bundle": user_bundle, "user_item": user_item, "bundle_item": bundle_item}
    with show.progress("updating", None):
        updated = add(opened, tables, parse_columns(columns or []))
        save_artifact(updated.artifact, out, updated.dataset, force=force)
    _show(updated, out)


def _show(updated: "Updated", out: Path) -> None:
    from clbr.cli import show
    from clbr.inference.card import describe_added

    rows = [
        [name, f"{rows.total:,}", f"{rows.added:,}", f"{rows.known:,}", f"{rows.repeated:,}"]
        for name, rows in updated.rows.items()
    ]
    show.table(f"Updated to {out}", ["table", "rows", "added", "known, ignored", "repeated, ignored"], rows)
    new = ", ".join(f"{count:,} {kind}{'s' * (count != 1)}" for kind, count in updated.nodes.items())
    typer.echo(f"New: {new}")
    typer.echo(describe_added(updated.artifact.about, updated.dataset))
    typer.echo(f"next: clbr recommend {out} --user ID")
