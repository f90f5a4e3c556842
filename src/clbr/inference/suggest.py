"""Which swap in a bundle would gain it the most readers?

All items are judged at once, to first order: a swap moves the bundle's vectors by the difference of the two items'
vectors, shared among its contents, and so its score for everyone who is near to having it in her list. The most
promising swaps are then seen to hold, or not, by exact propagation.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from clbr.errors import InputError
from clbr.inference.artifact import Artifact
from clbr.inference.edit_requests import contents_edits
from clbr.inference.explain import Swap
from clbr.inference.recommend import of_left, require_k
from clbr.inference.whatif import State, audience, edited, factual
from clbr.models.registry import find_model

NEAR = 1024
"""Users nearest to the edge, inside or out, whose scores are looked at."""
SWAPPED = 32
"""Items of the bundle that help it least, and items that would help it most: each of these for each of those."""
LOOKS = 8
"""Swaps whose audience is counted exactly."""


@dataclass(frozen=True)
class Suggestion:
    """A swap and the audience that the bundle has with it."""

    swap: Swap
    audience: int


@dataclass(frozen=True)
class Suggestions:
    """The swaps that gain the most, best first, and the audience without any."""

    bundle: int
    k: int
    audience: int
    best: list[Suggestion]


def suggest(
    artifact: Artifact,
    bundle: int,
    k: int = 20,
    *,
    add_items: tuple[int, ...] = (),
    drop_items: tuple[int, ...] = (),
    count: int = 5,
) -> Suggestions:
    """The swaps, each one by itself, that gain a bundle the most audience, beside edits that it has already."""
    require_k(artifact, k)
    artifact.require_whatif()
    if "bi" not in find_model(artifact.about.model).relations:
        raise InputError(f"{artifact.about.model} does not look at what is in a bundle: no swap would change anything")
    edits = contents_edits(artifact, bundle, add_items=add_items, drop_items=drop_items)
    state = edited(artifact, edits) if add_items or drop_items else factual(artifact)
    now = len(audience(state, bundle, k))
    found = []
    for swap in _promising(state, bundle, k, avoid=drop_items):
        # An item that comes and goes again is no edit at all.
        added = (*(item for item in add_items if item != swap.old), swap.new)
        dropped = drop_items if swap.old in add_items else (*drop_items, swap.old)
        there = edited(artifact, contents_edits(artifact, bundle, add_items=added, drop_items=dropped))
        found.append(Suggestion(swap, len(audience(there, bundle, k))))
    best = sorted((one for one in found if one.audience > now), key=lambda one: -one.audience)[:count]
    return Suggestions(bundle, k, now, best)


def _promising(state: State, bundle: int, k: int, avoid: Collection[int]) -> list[Swap]:
    """The swaps after which most users near the edge would have it in their lists, by first order."""
    inside = torch.from_numpy(of_left(state.graph.bi.pairs, bundle).astype(np.int64))
    if not len(inside):
        return []
    lead = _leads(state, bundle, k)
    near = lead.abs().argsort()[:NEAR]
    pulls = torch.zeros(len(near), state.graph.items)  # how much an item in the bundle lifts it for each
    for level in state.embeddings.levels.values():
        if level.items is not None:
            pulls += level.users[near] @ level.items.T
    pulls /= len(inside)
    lead = lead[near][:, None]
    width = pulls.std().clamp(min=1e-9)
    worth = _readers(lead + pulls - pulls[:, inside].mean(1, keepdim=True), width)
    worth[inside] = -torch.inf
    worth[list(avoid)] = -torch.inf  # what was taken out is not offered again
    coming = worth.topk(min(SWAPPED, len(worth))).indices
    coming = coming[worth[coming] > -torch.inf]
    leaving = inside[pulls[:, inside].sum(0).argsort(stable=True)[:SWAPPED]]
    swaps = lead[:, :, None] + pulls[:, coming][:, None, :] - pulls[:, leaving][:, :, None]  # (near, leaving, coming)
    order = _readers(swaps, width).flatten().argsort(descending=True, stable=True)
    chosen: list[Swap] = []
    for code in order.tolist():
        swap = Swap(int(leaving[code // len(coming)]), int(coming[code % len(coming)]))
        if swap.new not in {one.new for one in chosen}:  # as many different items as there are looks
            chosen.append(swap)
        if len(chosen) == LOOKS:
            break
    return chosen


def _readers(leads: Tensor, width: Tensor) -> Tensor:
    """How many would have it; of equal numbers more where others are nearer to it."""
    return (leads > 0).sum(0) + torch.sigmoid(leads / width).mean(0)


def _leads(state: State, bundle: int, k: int) -> Tensor:
    """For each user the bundle's score less that of the last who would be before it among her first k."""
    leads = torch.empty(state.artifact.about.users)
    for start, scores, mine in state.blocks():
        own = scores[:, bundle].clone()
        scores[mine[:, 0], mine[:, 1]] = -torch.inf
        scores[:, [bundle, state.artifact.unseen_bundle]] = -torch.inf
        edge = scores.topk(min(k, scores.shape[1]), dim=1).values[:, -1]
        leads[start : start + len(scores)] = own - edge
        leads[start + mine[mine[:, 1] == bundle, 0]] = torch.inf  # she has it: nothing is to be won
    return leads
