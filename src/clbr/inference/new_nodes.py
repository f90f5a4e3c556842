"""Rows of a model's parameters for new users, bundles and items: added as zeros; fitted once they have pairs."""

from collections.abc import Iterator
from itertools import islice, repeat
from typing import Any

import torch
from torch import Tensor

from clbr.data.pairs import Kind, Relation
from clbr.errors import UnsupportedError
from clbr.graph.graph import BundleGraph
from clbr.inference.artifact import KINDS, Artifact
from clbr.models.base import Encoder, Model
from clbr.models.embeddings import Batch
from clbr.models.registry import build_model
from clbr.rng import generator, torch_generator
from clbr.training.batches import Positives, draw_nodes

Sizes = dict[Kind, int]
"""Numbers of users, bundles and items, without the unseen ones."""
BATCH_SIZE = 2048
STEPS, LEARNING_RATE = 70, 0.01
"""Of the fit; chosen on validation pairs of Youshu (benchmarks/update.py)."""


def grown_model(artifact: Artifact, sizes: Sizes) -> Model:
    """The artifact's model with rows of zeros for new nodes, between those of known nodes and of the unseen one."""
    about, unseen = artifact.about, {"user": 1, "bundle": 1, "item": 0}
    before = {"user": about.users, "bundle": about.bundles, "item": about.items}
    state, axes = artifact.model.state_dict(), node_axes(about.model, about.settings)
    for key, kinds in axes.items():
        for axis, kind in enumerate(kinds):
            if kind is None:
                continue
            if state[key].shape[axis] != before[kind] + unseen[kind]:
                raise UnsupportedError(f"{about.model}: the rows of {key} are not one per {kind}, so none can be added")
            known, rest = state[key].split([before[kind], unseen[kind]], dim=axis)
            shape = [*known.shape]
            shape[axis] = sizes[kind] - before[kind]
            state[key] = torch.cat([known, known.new_zeros(shape), rest], dim=axis)
    model = build_model(about.model, about.settings, sizes["user"] + 1, sizes["bundle"] + 1, sizes["item"])
    model.load_state_dict(state)
    return model


def node_axes(model: str, settings: dict[str, Any]) -> dict[str, list[Kind | None]]:
    """The kind of node that each axis of each parameter has an entry for; None for an axis of fixed length."""
    small = build_model(model, settings, 1, 1, 1).state_dict()
    axes: dict[str, list[Kind | None]] = {key: [None] * value.dim() for key, value in small.items()}
    for kind in KINDS:
        larger = build_model(model, settings, *(1 + (kind == other) for other in KINDS)).state_dict()
        for key, kinds in axes.items():
            for axis, (one, other) in enumerate(zip(small[key].shape, larger[key].shape, strict=True)):
                if one != other:
                    kinds[axis] = kind
    return axes


def fit_new_nodes(
    artifact: Artifact, model: Encoder, graph: BundleGraph, steps: int = STEPS, learning_rate: float = LEARNING_RATE
) -> None:
    """Fit the rows of some nodes by steps of the model's own objective. Everything else stays fixed.

    These are users and bundles with their first user-bundle pairs, and items with their first pairs: new nodes, and
    known ones without a pair so far. `model` is the artifact's, grown. Batches are of all pairs, because a bundle is a
    negative of all who did not choose it: fitted on its own pairs alone, it ranks far too high.
    """
    masks = _masks(artifact, model, graph)
    if not (steps and masks):
        return
    _start_at_similar(artifact, model, graph, masks)
    for key, parameter in model.named_parameters():
        parameter.requires_grad_(key in masks)
    optimizer = torch.optim.Adam([model.get_parameter(key) for key in masks], lr=learning_rate)
    noise = torch_generator(artifact.about.seed, "update")
    for dropped, batch in islice(_batches(model, graph, artifact.about.seed, noise), steps):
        loss = torch.stack([*model.losses(dropped, batch, noise).values()]).sum()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        for key, mask in masks.items():  # Adam leaves an entry as it is if its gradient is always 0
            gradient = model.get_parameter(key).grad
            if gradient is not None:
                gradient.mul_(mask)
        optimizer.step()
    model.requires_grad_(False)


def _batches(
    model: Encoder, graph: BundleGraph, seed: int, noise: torch.Generator
) -> Iterator[tuple[BundleGraph, Batch]]:
    """Endless batches as in training, each with the graph of its epoch."""
    draws, chosen = generator(seed, "update"), Positives(graph.ub.pairs, graph.ub.shape)
    items = Positives(graph.ui.pairs, graph.ui.shape) if model.learns_items else None
    ui = items.endless(BATCH_SIZE, 1, draws) if items else repeat(None)
    nodes = draw_nodes(model.random_nodes, graph, generator(seed, "update", "other nodes"))
    while True:
        dropped = model.epoch_graph(graph, noise)
        for ub in chosen.epoch(BATCH_SIZE, 1, draws, compared=model.compared):
            yield dropped, Batch(ub, next(ui), next(nodes))


def _masks(artifact: Artifact, model: Encoder, graph: BundleGraph) -> dict[str, Tensor]:
    """1 for the entries of parameters that are fitted, 0 for others; only parameters with fitted entries."""
    known: Sizes = {"user": artifact.about.users, "bundle": artifact.about.bundles, "item": artifact.about.items}
    before, now = _degrees(artifact.graph), _degrees(graph)
    fitted = {kind: degrees > 0 for kind, degrees in now.items()}
    for kind, count in known.items():
        fitted[kind][:count] &= before[kind][:count] == 0
    axes, masks = node_axes(artifact.about.model, artifact.about.settings), {}
    for key, parameter in model.named_parameters():
        mask = torch.zeros(parameter.shape, dtype=torch.bool)
        for axis, side in enumerate(axes[key]):
            if side is not None:
                mask |= fitted[side].view([-1 if axis == other else 1 for other in range(mask.dim())])
        if mask.any():
            masks[key] = mask
    return masks


def _degrees(graph: BundleGraph) -> dict[Kind, Tensor]:
    """Numbers of user-bundle pairs of users and bundles, and of all pairs of items."""
    items = graph.ui.right_degrees + graph.bi.right_degrees
    return {"user": graph.ub.left_degrees, "bundle": graph.ub.right_degrees, "item": items}


def _start_at_similar(artifact: Artifact, model: Encoder, graph: BundleGraph, masks: dict[str, Tensor]) -> None:
    """Set the rows to fit to the mean of similar nodes: those with the same neighbours, by each relation alike."""
    sides: dict[Kind, list[tuple[Relation, bool]]] = {
        "user": [("ub", True), ("ui", True)],
        "bundle": [("ub", False), ("bi", True)],
        "item": [("ui", False), ("bi", False)],
    }
    used = {"ub", *model.relations}
    axes = node_axes(artifact.about.model, artifact.about.settings)
    for key, mask in masks.items():
        kind, parameter = axes[key][0], model.get_parameter(key).data
        if kind is None or parameter.dim() != 2:
            continue
        means = []
        for relation, left in sides[kind]:
            if relation in used:
                edges = graph.edges(relation)
                there, back = (edges.back_mean, edges.mean) if left else (edges.mean, edges.back_mean)
                means.append(back @ (there @ parameter))
        parameter.copy_(torch.where(mask, torch.stack(means).mean(0), parameter))
