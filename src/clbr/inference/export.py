"""Making an artifact of a run."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor

from clbr.data.dataset import BundleDataset
from clbr.data.describe import SEGMENTS, segment_users
from clbr.data.pairs import Pairs, Relation
from clbr.errors import InputError
from clbr.evaluation.metrics import HEADLINE
from clbr.evaluation.protocol import Evaluation, evaluate
from clbr.files import atomic_folder, require_free, write_synced
from clbr.graph.graph import BundleGraph
from clbr.inference.artifact import (
    ABOUT,
    CARD,
    GRAPH,
    KINDS,
    LAYOUT,
    VECTORS,
    WEIGHTS,
    About,
    Artifact,
    about_checksum,
    encode_all,
    make_graph,
)
from clbr.inference.card import card
from clbr.inference.recommend import diversity_cost
from clbr.models.base import Encoder, Model
from clbr.models.registry import build_model
from clbr.rng import generator
from clbr.training.run_folder import best_epoch, best_model, read_config, read_dataset, read_origin

DIVERSITY_USERS = 300


def export(
    run: str | Path,
    out: str | Path,
    *,
    force: bool = False,
    data: str | Path | BundleDataset | None = None,
) -> Path:
    """Make an artifact of a run at its best epoch; whole or not at all. `force` replaces an artifact, nothing else.

    `data` is the data set, or where it lies now, if the run does not know.
    """
    from clbr import __version__

    run, out = Path(run), Path(out)
    config = read_config(run)
    require_free(out, force, is_artifact)  # before minutes of work, not after
    dataset = data if isinstance(data, BundleDataset) else read_dataset(run, config, Path(data) if data else None)
    if dataset.fingerprint != read_origin(run).fingerprint:
        raise InputError(f"{dataset.name}: is not the data set that {run} was trained on")
    model, best = best_model(run, dataset), best_epoch(run, config)
    assert best is not None  # it has best weights
    result = None
    if len(dataset.test):
        result = evaluate(model.recommender(BundleGraph.of(dataset)), dataset, split="test")
    wide = widened(model, config.model, config.settings, dataset)
    files, levels = _contents(wide, dataset)
    about = About(
        layout=LAYOUT,
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
        best_epoch=best["number"],
        validation={name: best["validation"][name] for name in HEADLINE if name in best["validation"]},
        test={name: result[name] for name in HEADLINE} if result else {},
        segments=_segments(result, dataset) if result else {},
        levels=levels,
        files={},
    )
    if len(dataset.validation):
        some = np.unique(dataset.validation[:, 0])
        some = generator(config.seed, "users of diversity").permutation(some)[:DIVERSITY_USERS]
        inside = Artifact.of(out, about, wide, dataset)
        cost = diversity_cost(
            inside, dataset.validation[np.isin(dataset.validation[:, 0], some)], min(20, len(dataset.bundles))
        )
        about = about.model_copy(update={"diversity": cost})
    files[CARD] = card(about, dataset).encode()
    about = about.model_copy(update={"files": {name: sha256(content).hexdigest() for name, content in files.items()}})
    content = about.model_dump(mode="json")
    files[ABOUT] = (json.dumps(content | {"checksum": about_checksum(content)}, indent=2) + "\n").encode()
    with atomic_folder(out, force, is_artifact) as folder:
        for name, content_ in files.items():
            write_synced(folder / name, content_)
    return out


def is_artifact(folder: Path) -> bool:
    """Whether a folder holds an artifact and nothing else: what `force` may replace."""
    known = {ABOUT, CARD, VECTORS, WEIGHTS, GRAPH, *(f"{kind}s.json" for kind in KINDS)}
    return (folder / ABOUT).exists() and all(path.name in known and path.is_file() for path in folder.iterdir())


def widened(model: Model, name: str, settings: dict[str, Any], dataset: BundleDataset) -> Model:
    """The model with a spare user and a spare bundle, whose own vectors are 0: only what they are tied to speaks."""
    wide = build_model(name, settings, len(dataset.users) + 1, len(dataset.bundles) + 1, len(dataset.items))
    state = model.state_dict()
    for key, parameter in wide.state_dict().items():
        missing = [there - here for there, here in zip(parameter.shape, state[key].shape, strict=True)]
        if any(missing):
            padding = [side for size in reversed(missing) for side in (0, size)]
            state[key] = torch.nn.functional.pad(state[key], padding)
    wide.load_state_dict(state)
    return wide


def _contents(model: Model, dataset: BundleDataset) -> tuple[dict[str, bytes], dict[str, int]]:
    """The files, and the widths of the levels of vectors if the model makes any."""
    pairs: dict[Relation, Pairs] = {"ub": dataset.train, "ui": dataset.ui, "bi": dataset.bi}
    files = {
        WEIGHTS: save({key: value.contiguous() for key, value in model.state_dict().items()}),
        GRAPH: save({relation: torch.from_numpy(np.array(found)) for relation, found in pairs.items()}),
    }
    levels: dict[str, int] = {}
    if isinstance(model, Encoder):
        graph = make_graph(pairs, len(dataset.users), len(dataset.bundles), len(dataset.items))
        embeddings = encode_all(model, graph)
        vectors: dict[str, Tensor] = {"users": embeddings.joined("users"), "bundles": embeddings.joined("bundles")}
        for name, level in embeddings.levels.items():
            levels[name] = level.users.shape[1]
            if level.items is not None:
                vectors[f"items.{name}"] = level.items
        files[VECTORS] = save({key: value.contiguous() for key, value in vectors.items()})
    for nodes in (dataset.users, dataset.bundles, dataset.items):
        if nodes.ids or nodes.names:
            told = {"ids": nodes.ids, "names": nodes.names}
            files[f"{nodes.kind}s.json"] = json.dumps(told, ensure_ascii=False).encode()
    return files, levels


def _segments(result: Evaluation, dataset: BundleDataset) -> dict[str, dict[str, float]]:
    """Test metrics by how much is known of a user."""
    segment = segment_users(dataset.train, len(dataset.users))[result.users]
    found: dict[str, dict[str, float]] = {}
    for number, name in enumerate(SEGMENTS):
        mine = segment == number
        if mine.any():
            found[name] = {"users": float(mine.sum())}
            found[name] |= {metric: float(result.per_user[metric][mine].mean()) for metric in HEADLINE}
    return found
