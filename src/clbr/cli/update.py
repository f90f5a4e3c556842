"""clbr update."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clbr.cli.data import parse_columns
from clbr.cli.options import Threads, out_option
from clbr.cli.recommend import ArtifactFolder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clbr.data.pairs import Kind
    from clbr.inference.update import Updated

EXAMPLE = "Example: clbr update artifact --user-bundle new_carts.csv --bundle-item new_contents.csv --out updated"


def update(
    artifact: ArtifactFolder,
    out: Annotated[Path, out_option("Folder for the updated artifact; new or empty.")],
    user_bundle: Annotated[Path | None, typer.Option(help="New choices of bundles: CSV, TSV or Parquet.")] = None,
    user_item: Annotated[Path | None, typer.Option(help="New choices of items.")] = None,
    bundle_item: Annotated[Path | None, typer.Option(help="New contents of bundles.")] = None,
    user_names: Annotated[Path | None, typer.Option(help="Names of new or known users: columns user and name.")] = None,
    bundle_names: Annotated[Path | None, typer.Option(help="The same for bundles: columns bundle and name.")] = None,
    item_names: Annotated[Path | None, typer.Option(help="The same for items: columns item and name.")] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(help="Your column names: user=customer,bundle=cart; for one table: user_item.user=buyer."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an artifact that is there.")] = False,
    threads: Threads = None,
) -> None:
    """Add new users, bundles, items, pairs and names to an artifact in seconds, without training it again.

    Tables are read as by clbr data import. A node that a table of names does not list keeps its name. Only the vectors
    of new nodes are fitted; known nodes change by propagation over the new pairs. The model card says how much was
    added since training, and when to train again.
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
    tables |= {"user_names": user_names, "bundle_names": bundle_names, "item_names": item_names}
    with show.progress("updating", None):
        updated = add(opened, tables, parse_columns(columns or []))
        save_artifact(updated.artifact, out, updated.dataset, force=force)
    _show(updated, out)


def _show(updated: "Updated", out: Path) -> None:
    from clbr.cli import show
    from clbr.inference.card import describe_added

    if updated.rows:
        rows = [
            [name, f"{rows.total:,}", f"{rows.added:,}", f"{rows.known:,}", f"{rows.repeated:,}"]
            for name, rows in updated.rows.items()
        ]
        show.table(f"Updated to {out}", ["table", "rows", "added", "known, ignored", "repeated, ignored"], rows)
        typer.echo(f"New: {_counts(updated.nodes)}")
    if updated.names:
        left_out = f"; {updated.unmatched_names:,} left out, whose ids are not known" if updated.unmatched_names else ""
        typer.echo(f"New or changed names: {_counts(updated.names)}{left_out}")
    if updated.rows:
        typer.echo(describe_added(updated.artifact.about, updated.dataset))
    typer.echo(f"next: clbr recommend {out} --user ID")


def _counts(counts: "Mapping[Kind, int]") -> str:
    from clbr.cli import show

    return ", ".join(show.counted(count, kind) for kind, count in counts.items())
