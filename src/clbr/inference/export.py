"""Make an artifact: in memory from a trained model, or a folder from a run."""

import json
import shutil
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor

from clbr.data.dataset import BundleDataset
from clbr.errors import InputError, UnsupportedError
from clbr.evaluation.agreement import Agreement
from clbr.files import as_path, atomic_folder, require_free, write_synced
from clbr.inference import retraining
from clbr.inference.artifact import (
    ABOUT,
    CARD,
    GRAPH,
    KINDS,
    VECTORS,
    WEIGHTS,
    About,
    Artifact,
    about_checksum,
    open_artifact,
)
from clbr.inference.card import measure, write_card
from clbr.inference.index import INDEX, INDEX_ABOUT, AboutIndex, write_index
from clbr.inference.vectors import check_vectors, save_vectors
from clbr.models.base import Encoder, Model, VectorScorer
from clbr.models.registry import build_model
from clbr.training.config import RunConfig
from clbr.training.run_folder import best_epoch, best_model, read_config, read_dataset, read_origin


def export(
    run: str | Path,
    out: str | Path,
    *,
    force: bool = False,
    data: str | Path | BundleDataset | None = None,
    measure_whatif: int = 0,
    vectors: str | Path | None = None,
    on_progress: Callable[[int], None] = lambda done: None,
) -> Path:
    """Write the artifact of a run at its best epoch, atomically. `force` replaces an artifact, nothing else.

    `data` is the data set, or its folder, if the run's own path to it is no longer right. With `measure_whatif`, models
    are trained anew with so many other seeds, for the agreement of what-if with retraining that card and answers quote
    (`on_progress` gets the number of trained models). `vectors` is a folder for the vectors, see
    `Recommender.save_vectors`.
    """
    run, out = as_path(run, "run"), as_path(out, "out")
    config = read_config(run)
    require_free(out, force, is_artifact)  # before minutes of work
    if vectors is not None:
        check_vectors(config.model, as_path(vectors, "vectors"), force)
        one, other = out.resolve(), Path(vectors).resolve()
        if one.is_relative_to(other) or other.is_relative_to(one):
            raise InputError(f"{vectors}: expected another folder than that of the artifact, {out}", "vectors")
    dataset = data if isinstance(data, BundleDataset) else read_dataset(run, config, Path(data) if data else None)
    if dataset.fingerprint != read_origin(run).fingerprint:
        raise InputError(f"{dataset.name}: is not the data set that {run} was trained on", "data")
    artifact = make_artifact(best_model(run, dataset), config, dataset, _best_number(run, config))
    measured: dict[str, Agreement] | None = None
    if measure_whatif:
        measured = retraining.measure_whatif(
            artifact, config, dataset, measure_whatif, run_artifact, on_progress=on_progress
        )
    save_artifact(artifact, out, dataset, force=force, whatif_agreement=measured)
    if vectors is not None:
        save_vectors(artifact, as_path(vectors, "vectors"), force=force)
    return out


def add_index(folder: str | Path) -> AboutIndex:
    """Add an index of the bundle vectors to an artifact: lists among many bundles take a fraction of the time.

    A model without vectors, and bundles that are ranked exactly in no more time, raise an `UnsupportedError`.
    """
    artifact = open_artifact(as_path(folder, "folder"))
    if not artifact.about.levels:
        raise UnsupportedError(f"{artifact.about.model} has no vectors: its scores are no inner products", "index")
    scorer = artifact.scorer
    assert isinstance(scorer, VectorScorer)
    bundles, fingerprint = scorer.bundles[: artifact.about.bundles], artifact.about.files[VECTORS]
    return write_index(artifact.folder, fingerprint, scorer.users, bundles, artifact.graph.ub.pairs)


def run_artifact(run: Path, dataset: BundleDataset) -> Artifact:
    """The artifact of a run at its best epoch, in memory."""
    config = read_config(run)
    return make_artifact(best_model(run, dataset), config, dataset, _best_number(run, config))


def _best_number(run: Path, config: RunConfig) -> int:
    best = best_epoch(run, config)
    assert best is not None  # the run has best weights
    return int(best["number"])


def make_artifact(model: Model, config: RunConfig, dataset: BundleDataset, best_epoch: int) -> Artifact:
    """The artifact of a trained model, in memory; nothing is measured yet."""
    from clbr import __version__

    about = About(
        version=__version__,
        model=config.model,
        paradigm=config.paradigm,
        seed=config.seed,
        settings=config.settings,
        data=dataset.name,
        fingerprint=dataset.fingerprint,
        users=len(dataset.users),
        bundles=len(dataset.bundles),
        items=len(dataset.items),
        best_epoch=best_epoch,
        metric=config.train.metric,
    )
    return Artifact.of(about, widened(model, config.model, config.settings, dataset), dataset)


def save_artifact(
    artifact: Artifact,
    out: Path,
    dataset: BundleDataset | None,
    *,
    force: bool = False,
    whatif_agreement: Mapping[str, Agreement] | None = None,
) -> Path:
    """Write an artifact to a folder, atomically. With its data set it is measured for the card first."""
    require_free(out, force, is_artifact)
    if dataset is None:  # it was opened from a folder: a copy is the same artifact
        if whatif_agreement is not None:
            raise InputError("a recommender that was opened from a folder is saved as it is", "whatif_agreement")
        artifact.verify()
        with atomic_folder(out, force, is_artifact) as folder:
            index = [name for name in (INDEX, INDEX_ABOUT) if (artifact.folder / name).exists()]
            for name in (ABOUT, *artifact.about.files, *index):
                shutil.copyfile(artifact.folder / name, folder / name)
        return out
    about = measure(artifact, dataset)
    if whatif_agreement is not None:
        about = about.model_copy(update={"whatif_agreement": dict(whatif_agreement)})
    files = _files(artifact) | {CARD: write_card(about, dataset).encode()}
    about = about.model_copy(update={"files": {name: sha256(content).hexdigest() for name, content in files.items()}})
    content = about.model_dump(mode="json")
    files[ABOUT] = (json.dumps(content | {"checksum": about_checksum(content)}, indent=2) + "\n").encode()
    with atomic_folder(out, force, is_artifact) as folder:
        for name, data in files.items():
            write_synced(folder / name, data)
    return out


def is_artifact(folder: Path) -> bool:
    """Whether a folder holds an artifact and nothing else: what `force` may replace."""
    known = {ABOUT, CARD, VECTORS, WEIGHTS, GRAPH, INDEX, INDEX_ABOUT, *(f"{kind}s.json" for kind in KINDS)}
    return (folder / ABOUT).exists() and all(path.name in known and path.is_file() for path in folder.iterdir())


def widened(model: Model, name: str, settings: dict[str, Any], dataset: BundleDataset) -> Model:
    """The model with rows of zeros for an unseen user and an unseen bundle: their vectors come from their edges.

    If only users with bundles have vectors of their own, those of other users, which were never trained, become 0, too.
    """
    wide = build_model(name, settings, len(dataset.users) + 1, len(dataset.bundles) + 1, len(dataset.items))
    state = {key: value.cpu() for key, value in model.state_dict().items()}
    for key, parameter in wide.state_dict().items():
        missing = [there - here for there, here in zip(parameter.shape, state[key].shape, strict=True)]
        if any(missing):
            padding = [side for size in reversed(missing) for side in (0, size)]
            state[key] = torch.nn.functional.pad(state[key], padding)
    wide.load_state_dict(state)
    own = wide.vectors_of_choosers() if isinstance(wide, Encoder) else None
    if own is not None:
        chose = np.isin(np.arange(len(own)), dataset.train[:, 0])
        own.data[~torch.from_numpy(chose)] = 0
    return wide


def _files(artifact: Artifact) -> dict[str, bytes]:
    """All files but the card and artifact.json."""
    graph = artifact.graph
    pairs = {relation: torch.from_numpy(np.array(graph.edges(relation).pairs)) for relation in ("ub", "ui", "bi")}
    files = {
        WEIGHTS: _aligned(artifact.model.state_dict()),
        GRAPH: _aligned(pairs),
    }
    if artifact.about.levels:
        embeddings = artifact.embeddings
        vectors = {"users": embeddings.joined("users"), "bundles": embeddings.joined("bundles")}
        vectors |= {f"items.{n}": level.items for n, level in embeddings.levels.items() if level.items is not None}
        files[VECTORS] = _aligned(vectors)
    for nodes in artifact.nodes.values():
        if nodes.ids or nodes.names:
            content = {"ids": nodes.ids, "names": nodes.names, "integer_ids": nodes.integer_ids}
            files[f"{nodes.kind}s.json"] = json.dumps(content, ensure_ascii=False).encode()
    return files


def _aligned(tensors: dict[str, Tensor]) -> bytes:
    """A safetensors file whose values begin at a multiple of 64 bytes.

    Products of vectors depend in their last bit on alignment: so a mapped file gives the scores of one in memory.
    """
    content = save({key: value.contiguous() for key, value in tensors.items()})
    end = 8 + int.from_bytes(content[:8], "little")
    header = content[8:end] + b" " * (-end % 64)
    return len(header).to_bytes(8, "little") + header + content[end:]
