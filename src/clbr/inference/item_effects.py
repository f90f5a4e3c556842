"""What each item brings to a bundle's score, to first order: candidates for swaps are ordered by it."""

import torch
from torch import Tensor

from clbr.graph.graph import BundleGraph
from clbr.models.base import Encoder
from clbr.models.cold import COLD_LEVEL, FEATURES, NEUTRAL
from clbr.models.embeddings import Embeddings


def item_effects(model: Encoder, embeddings: Embeddings, graph: BundleGraph, users: Tensor, bundle: int) -> Tensor:
    """The effects of all items in the bundle for some users, (users, items), still to be divided by its size.

    That is the sum of the levels' inner products and, if the bundle is cold and calibrated, their scales and the
    item's popularity. `embeddings` may be calibrated: that changes neither users nor items.
    """
    is_cold = model.calibrates and bool(model.cold[bundle])
    numbers = model.calibration.tolist() if is_cold else NEUTRAL
    (*_, popularity_weight), scales = numbers[:FEATURES], numbers[FEATURES:]
    levels = [level for name, level in embeddings.levels.items() if name != COLD_LEVEL]
    effects = torch.zeros(len(users), graph.items)
    for level, scale in zip(levels, scales, strict=False):  # there may be fewer levels
        if level.items is not None:
            effects += scale * (level.users[users] @ level.items.T)
    return effects + popularity_weight * model.popularity if is_cold else effects
