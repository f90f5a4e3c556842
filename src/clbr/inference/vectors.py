"""The vectors of a recommender: those of a kind of node, and as Parquet files for a vector database."""

from pathlib import Path

import polars as pl
import torch
from torch import Tensor

from clbr.data.pairs import KINDS, Kind
from clbr.errors import InputError, UnsupportedError
from clbr.files import atomic_folder, require_free
from clbr.inference.artifact import Artifact
from clbr.inference.lists import node_columns
from clbr.models.base import Encoder
from clbr.models.cold import COLD_LEVEL
from clbr.models.registry import find_model

FILES: dict[Kind, str] = {kind: f"{kind}s.parquet" for kind in KINDS}


def node_vectors(artifact: Artifact, kind: Kind, calibrated: bool = True) -> Tensor | None:
    """The (n, d) vectors of all nodes of a kind but the unseen one; the levels that have such vectors side by side.

    Without `calibrated`, the vectors of cold bundles are those that the model computes.
    """
    if not artifact.about.levels:
        return None
    embeddings = artifact.embeddings
    if not calibrated and COLD_LEVEL in embeddings.levels:
        assert isinstance(artifact.model, Encoder)
        with torch.no_grad():
            embeddings = artifact.model.encode(artifact.graph)
    levels = embeddings.levels.values()
    sides = [{"user": level.users, "bundle": level.bundles, "item": level.items}[kind] for level in levels]
    found = [side for side in sides if side is not None]
    return torch.cat(found, dim=1)[: len(artifact.nodes[kind])] if found else None


def check_vectors(model: str, out: Path, force: bool) -> None:
    """Raise an error if a model has no vectors, or if they cannot be written to a folder."""
    if not issubclass(find_model(model), Encoder):
        raise UnsupportedError(f"{model} has no vectors: its scores are no inner products", "vectors")
    require_free(out, force, holds_vectors, "vectors")


def save_vectors(artifact: Artifact, out: Path, *, force: bool = False) -> Path:
    """Write users.parquet, bundles.parquet and, if items have vectors, items.parquet to a folder, atomically.

    Columns: id, name (if there are names), vector (float32). See `Recommender.save_vectors`.
    """
    check_vectors(artifact.about.model, out, force)
    with atomic_folder(out, force, holds_vectors, "vectors") as folder:
        for kind, name in FILES.items():
            vectors = node_vectors(artifact, kind)
            if vectors is not None:
                column = pl.Series("vector", vectors.numpy(), dtype=pl.Array(pl.Float32, vectors.shape[1]))
                try:
                    node_columns(artifact.nodes[kind], "id", "name").with_columns(column).write_parquet(folder / name)
                except pl.exceptions.PolarsError as error:
                    raise InputError(f"{out}: cannot be written ({error}); nothing was changed", "vectors") from None
    return out


def holds_vectors(folder: Path) -> bool:
    """Whether a folder holds files of vectors and nothing else: what `force` may replace."""
    return all(path.name in FILES.values() and path.is_file() for path in folder.iterdir())
