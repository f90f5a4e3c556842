"""clbr export, recommend and similar."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clbr.cli.options import MovedData, On, Threads, out_option, require_path
from clbr.errors import InputError, found_in

if TYPE_CHECKING:
    from clbr.data.dataset import Nodes
    from clbr.inference.lists import Blocks
    from clbr.inference.recommender import Recommender

ArtifactFolder = Annotated[Path, typer.Argument(metavar="ARTIFACT", help="A folder that clbr export made.")]
ArtifactPlace = Annotated[str, typer.Argument(metavar="ARTIFACT", help="A folder that clbr export made, or its URL.")]
K = Annotated[int, typer.Option("--k", min=1, help="Length of the list.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object, the same as over HTTP.")]
Items = Annotated[list[str] | None, typer.Option(help="An item's id or name; may be repeated.")]
Bundles = Annotated[list[str] | None, typer.Option(help="A bundle's id or name; may be repeated.")]


def open_recommender(folder: Path | str, threads: int | None) -> "Recommender":
    """Open an artifact, with so many threads."""
    from clbr.inference.recommender import load_recommender
    from clbr.training.runtime import use_threads

    use_threads(threads)
    return load_recommender(folder)


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run that clbr train made.")],
    out: Annotated[Path, out_option("Folder for the artifact; new or empty.")],
    vectors: Annotated[
        Path | None,
        typer.Option(
            help="Folder for Parquet files of the vectors, for a vector database: users, bundles, items.",
            callback=require_path,
        ),
    ] = None,
    measure_whatif: Annotated[
        int,
        typer.Option(
            "--measure-whatif",
            metavar="SEEDS",
            min=0,
            help="Measure how well what-if agrees with retraining; 3 seeds or more, four trainings each at most.",
            show_default=False,
        ),
    ] = 0,
    index: Annotated[
        bool, typer.Option("--index", help="Add an index of the bundles (faiss): lists among many in less time.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an artifact (and vectors) that is there.")] = False,
    data: MovedData = None,
    threads: Threads = None,
) -> None:
    """Export a run as an artifact: a folder that recommends and answers, without the run and the data set."""
    from clbr.cli import show
    from clbr.inference.export import export as export_run
    from clbr.inference.index import require_faiss
    from clbr.inference.retraining import measured_kinds
    from clbr.training.run_folder import read_config
    from clbr.training.runtime import use_threads

    use_threads(threads)
    if index:
        require_faiss()  # before the work
    kinds = measured_kinds(read_config(run).model) if measure_whatif else []
    trainings = measure_whatif * (1 + len(kinds)) or None
    with show.progress("training anew" if trainings else "exporting", trainings) as on_progress:
        options: dict[str, Any] = {"measure_whatif": measure_whatif, "on_progress": on_progress}
        export_run(run, out, force=force, data=data, vectors=vectors, **options)
    typer.echo((out / "card.md").read_text())
    if vectors is not None:
        typer.echo(f"{vectors}: {', '.join(sorted(path.name for path in vectors.iterdir()))}")
    if index:
        _add_index(out)
    typer.echo(f"next: clbr recommend {out} --user ID")


def _add_index(folder: Path) -> None:
    """Add an index to an artifact, or say why it would be of no use."""
    from clbr.errors import UnsupportedError
    from clbr.inference.export import add_index

    try:
        about = add_index(folder)
    except UnsupportedError as error:
        typer.echo(f"no index: {error}")
        return
    found = ", ".join(f"{share:.1%} of the {k} best" for k, share in about.recall.items())
    typer.echo(f"{folder}: index.faiss finds {found}, reading {about.probes} of {about.clusters} clusters")


def recommend(
    artifact: ArtifactPlace,
    user: Annotated[str | None, typer.Option(help="A user's id or name.")] = None,
    k: K = 20,
    likes_item: Items = None,
    likes_bundle: Bundles = None,
    all_: Annotated[bool, typer.Option("--all", help="Every user, to --out.")] = False,
    users: Annotated[Path | None, typer.Option(help="Users, one a line or in Parquet: their lists, to --out.")] = None,
    out: Annotated[Path | None, out_option("With --all or --users: a .parquet or .csv file.")] = None,
    allow: Annotated[Path | None, typer.Option(help="Bundles, one a line or in Parquet: only these.")] = None,
    deny: Annotated[Path | None, typer.Option(help="Bundles, one a line or in Parquet: none of these.")] = None,
    keep_chosen: Annotated[bool, typer.Option("--keep-chosen", help="List chosen bundles, too.")] = False,
    diversity: Annotated[float, typer.Option(help="0: by score; up to 1: bundles that share fewer items.")] = 0.0,
    on: On = "local",
    workers: Annotated[int, typer.Option(min=1, help="With --on: how many; they share the threads.")] = 1,
    json: Json = False,
    threads: Threads = None,
) -> None:
    """The best bundles for a user, for an unseen user who likes some items or bundles, or for many users.

    A file has the columns user, user_name, bundle, name, rank and score; names only if the data has them.
    """
    from clbr.cli import show_answers

    recommender = open_recommender(artifact, threads)
    if sum((user is not None, all_, users is not None, bool(likes_item or likes_bundle))) != 1:
        raise InputError(
            "expected one of --user ID, --all, --users FILE, or what an unseen user likes: --likes-item, --likes-bundle"
        )
    bundles = recommender.artifact.bundles
    filters: dict[str, Any] = {
        "allow": None if allow is None else _read_ids(bundles, allow),
        "deny": [] if deny is None else _read_ids(bundles, deny),
        "keep_chosen": keep_chosen,
    }
    if all_ or users is not None:
        _reject("--all" if all_ else "--users", {"--diversity": diversity, "--json": json})
        with _lists_on(on, workers, artifact) as blocks:
            _write_lists(recommender, users, out, k, filters, blocks)
        return
    _reject("a list on the terminal", {"--out": out, "--on": on != "local", "--workers": workers > 1})
    filters |= {"likes_items": likes_item or (), "likes_bundles": likes_bundle or ()}
    answer = recommender.recommend_one(user, k=k, diversity=diversity, **filters)
    if json:
        typer.echo(answer.to_json())
    else:
        show_answers.recommendations(answer, diversity, recommender.artifact.about.diversity)


def _lists_on(on: str, workers: int, artifact: str) -> AbstractContextManager["Blocks"]:
    """What computes the lists: this process, or Ray."""
    from clbr.files import is_url
    from clbr.inference.lists import Lists
    from clbr.inference.ray_lists import blocks_on_ray

    if on == "local":
        _reject("--on local", {"--workers": workers > 1})
        return nullcontext(Lists.blocks)
    return blocks_on_ray(on, workers, artifact if is_url(artifact) else str(Path(artifact).absolute()))


def _write_lists(
    recommender: "Recommender",
    users: Path | None,
    out: Path | None,
    k: int,
    filters: dict[str, Any],
    blocks: "Blocks",
) -> None:
    """The lists of the users of a file (None: all), to a file."""
    import numpy as np

    from clbr.cli import show
    from clbr.inference.lists import write_lists

    if out is None:
        raise InputError("expected --out with a name that ends in .parquet or .csv")
    artifact, indices = recommender.artifact, None
    if users is not None:
        indices = np.array([artifact.users.index(id) for id in _read_ids(artifact.users, users)], np.int64)
        if not len(indices):
            raise InputError(f"{users}: has no user; expected at least one")
    count = artifact.about.users if indices is None else len(indices)
    with show.progress("ranking", count) as on_progress:
        rows = write_lists(
            artifact,
            out,
            k,
            indices,
            allow=None if filters["allow"] is None else [artifact.bundles.index(id) for id in filters["allow"]],
            deny=[artifact.bundles.index(id) for id in filters["deny"]],
            keep_chosen=filters["keep_chosen"],
            on_progress=on_progress,
            blocks=blocks,
        )
    typer.echo(f"{out}: {show.counted(rows, 'row')}, {show.counted(count, 'user')}")


def _reject(what: str, options: dict[str, Any]) -> None:
    """Raise an error for options that would have no effect."""
    if given := [name for name, value in options.items() if value]:
        raise InputError(f"{what} does not take {given[0]}; leave it out")


def _read_ids(nodes: "Nodes", path: Path) -> list[str]:
    """The ids or names of a file, a text with one on each line or Parquet; an unknown one is an error."""
    from clbr.data.pair_files import PARQUET
    from clbr.files import read_bytes

    if path.suffix.lower() in PARQUET:
        ids = _read_column(path, nodes.kind)
    else:  # utf-8-sig: spreadsheets put a byte order mark before the first line
        lines = [line.strip() for line in read_bytes(path).decode("utf-8-sig", "replace").splitlines()]
        ids = [line for line in lines if line]
    with found_in(path):
        for id in ids:
            nodes.index(id)
    return ids


def _read_column(path: Path, kind: str) -> list[str]:
    """The ids in the column user (or bundle, or item) of a Parquet file, or in its only column."""
    from clbr.data.pair_files import UNREADABLE, broken_parquet, scan_parquet

    try:
        frame = scan_parquet(path).collect()
    except UNREADABLE as error:
        raise broken_parquet(path, error) from None
    if kind not in frame.columns and frame.width != 1:
        found = ", ".join(frame.columns) or "none"
        raise InputError(f"{path}: expected a column {kind}, or one column; it has {found}")
    column = frame[kind] if kind in frame.columns else frame.to_series()
    if column.null_count():
        raise InputError(f"{path}, row {column.is_null().arg_max() + 1}: no {kind}; expected an id")  # type: ignore[operator]
    return [str(id) for id in column]


def similar(
    artifact: ArtifactFolder,
    bundle: Annotated[str | None, typer.Option(help="A bundle's id or name.")] = None,
    item: Annotated[str | None, typer.Option(help="An item's id or name.")] = None,
    k: K = 10,
    json: Json = False,
    threads: Threads = None,
) -> None:
    """The bundles nearest to a bundle, or the items nearest to an item, by the cosine of their vectors."""
    from clbr.cli import show_answers

    recommender = open_recommender(artifact, threads)
    if (bundle is None) == (item is None):
        raise InputError("expected --bundle ID or --item ID, one of them")
    if bundle is not None:
        answer = recommender.similar_bundles(bundle, k)
    else:
        assert item is not None
        answer = recommender.similar_items(item, k)
    if json:
        typer.echo(answer.to_json())
    else:
        show_answers.similar(answer)
