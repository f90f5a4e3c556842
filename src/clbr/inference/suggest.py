"""Suggestions: which swap of an item would gain a bundle the most users?

All items are scored at once, to first order: a swap moves the bundle's vectors by the difference of the two items'
vectors, divided by the number of its items, and so its score for every user near the edge of having it in the list. The
audience with the most promising swaps is then counted exactly.
"""

from collections.abc import Collection, Sequence

import numpy as np
import torch
from torch import Tensor

from clbr.config import whole_number
from clbr.data.pairs import neighbours
from clbr.errors import UnsupportedError
from clbr.inference.answers import SuggestedSwap, Suggestions
from clbr.inference.artifact import Artifact
from clbr.inference.edit_search import ItemSwap
from clbr.inference.edits_by_id import Ids, edit_contents
from clbr.inference.item_effects import item_effects
from clbr.inference.whatif import State, edited_state, factual_state, list_length
from clbr.models.base import Encoder

NEAR_USERS = 1024
"""Users nearest to the edge, inside or outside, whose scores are considered."""
SWAPPED_ITEMS = 32
"""The bundle's items that help it least, and the items that would help it most: each with each."""
VERIFIED = 8
"""Swaps whose audience is counted exactly."""


def suggest(
    artifact: Artifact,
    bundle: str | int,
    *,
    add_items: Ids = (),
    drop_items: Ids = (),
    k: int = 20,
    count: int = 5,
) -> Suggestions:
    """The swaps that gain a bundle the most users, each by itself, on top of given edits of its contents."""
    k, count = list_length(artifact, k), whole_number(count, "count")
    artifact.require_whatif()
    if "bi" not in type(artifact.model).relations:
        raise UnsupportedError(
            f"{artifact.about.model} does not use a bundle's contents: no swap would change anything"
        )
    index = artifact.bundles.index(bundle)
    edits = edit_contents(artifact, index, add_items=add_items, drop_items=drop_items)
    state = edited_state(artifact, edits) if add_items or drop_items else factual_state(artifact)
    now = len(state.audience(index, k))
    added, dropped = ([artifact.items.index(item) for item in items] for items in (add_items, drop_items))
    found = []
    for swap in _promising(state, index, k, avoid=dropped):
        audience = _audience_with(artifact, index, k, swap, added, dropped)
        if audience > now:
            old, new = artifact.node("item", swap.old), artifact.node("item", swap.new)
            found.append(SuggestedSwap(old=old, new=new, audience=audience, gain=audience - now))
    best = sorted(found, key=lambda swap: -swap.audience)[:count]
    return Suggestions(bundle=artifact.node("bundle", index), k=k, audience=now, swaps=best, caveat=artifact.caveat)


def _audience_with(
    artifact: Artifact, bundle: int, k: int, swap: ItemSwap, added: Sequence[int], dropped: Sequence[int]
) -> int:
    """The audience with a swap on top of the given edits; an item that is added and dropped again is no edit."""
    add = [*(item for item in added if item != swap.old), swap.new]
    drop = [*dropped] if swap.old in added else [*dropped, swap.old]
    add_ids, drop_ids = ([artifact.items.id(item) for item in items] for items in (add, drop))
    edits = edit_contents(artifact, bundle, add_items=add_ids, drop_items=drop_ids)
    return len(edited_state(artifact, edits).audience(bundle, k))


def _promising(state: State, bundle: int, k: int, avoid: Collection[int]) -> list[ItemSwap]:
    """The swaps after which most users near the edge would have the bundle in their lists, to first order."""
    inside = torch.from_numpy(neighbours(state.graph.bi.pairs, bundle).astype(np.int64))
    if not len(inside):
        return []
    margins = _margins(state, bundle, k)
    near = margins.abs().argsort()[:NEAR_USERS]
    model = state.artifact.model
    assert isinstance(model, Encoder)
    effects = item_effects(model, state.embeddings, state.graph, near, bundle) / len(inside)
    margins = margins[near][:, None]
    width = effects.std().clamp(min=1e-9)
    gains = _expected_users(margins + effects - effects[:, inside].mean(1, keepdim=True), width)
    gains[inside] = -torch.inf
    gains[list(avoid)] = -torch.inf  # items that were dropped are not suggested again
    coming = gains.topk(min(SWAPPED_ITEMS, len(gains))).indices
    coming = coming[gains[coming] > -torch.inf]
    leaving = inside[effects[:, inside].sum(0).argsort(stable=True)[:SWAPPED_ITEMS]]
    # (near users, leaving, coming)
    swapped = margins[:, :, None] + effects[:, coming][:, None, :] - effects[:, leaving][:, :, None]
    order = _expected_users(swapped, width).flatten().argsort(descending=True, stable=True)
    chosen: list[ItemSwap] = []
    for code in order.tolist():
        swap = ItemSwap(int(leaving[code // len(coming)]), int(coming[code % len(coming)]))
        if swap.new not in {one.new for one in chosen}:  # each verified swap brings another item
            chosen.append(swap)
        if len(chosen) == VERIFIED:
            break
    return chosen


def _expected_users(margins: Tensor, width: Tensor) -> Tensor:
    """How many users would have it; a smooth term breaks ties in favour of nearer users."""
    return (margins > 0).sum(0) + torch.sigmoid(margins / width).mean(0)


def _margins(state: State, bundle: int, k: int) -> Tensor:
    """For each user: the bundle's score less that of the last bundle that would stand before it among the first k."""
    margins = torch.empty(state.artifact.about.users)
    for start, scores, chosen in state.score_blocks():
        own = scores[:, bundle].clone()
        scores[chosen[:, 0], chosen[:, 1]] = -torch.inf
        scores[:, [bundle, state.artifact.unseen_bundle]] = -torch.inf
        edge = scores.topk(min(k, scores.shape[1]), dim=1).values[:, -1]
        margins[start : start + len(scores)] = own - edge
        margins[start + chosen[chosen[:, 1] == bundle, 0]] = torch.inf  # the user has it: nothing to gain
    return margins
