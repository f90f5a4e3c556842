"""Explanations: the smallest edits that take a bundle out of a user's list, or bring it in.

Candidates are ordered by their first-order influence on the margin: the bundle's score less that of the bundle at the
edge of the list. edit_search.py finds the fewest that are enough.
"""

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from clbr.config import whole_number
from clbr.data.pairs import Pairs, Relation, neighbours
from clbr.errors import InputError, UnsupportedError
from clbr.graph.edits import EdgeEdits
from clbr.inference.answers import Explanation
from clbr.inference.artifact import Artifact
from clbr.inference.edit_search import Case, HistoryEdge, ItemSwap, search_edits
from clbr.inference.item_effects import item_effects
from clbr.inference.reencoder import Reencoder
from clbr.inference.whatif import State, factual_state, list_length
from clbr.models.base import Encoder
from clbr.models.cold import COLD_LEVEL
from clbr.models.embeddings import Level

BUDGET = 100
"""Sets of edits that are tried at most."""
CANDIDATES = 256
"""Possible additions that are considered: the most promising ones."""
Order = Callable[[State, int, int, int, Sequence[HistoryEdge]], list[HistoryEdge]]
"""Orders candidates by promise for (state, user, bundle, k)."""


def explain(
    artifact: Artifact,
    user: str | int,
    bundle: str | int,
    *,
    of: Literal["history", "contents"] = "history",
    k: int = 20,
    budget: int = BUDGET,
    order: Order | None = None,
) -> Explanation:
    """Why a bundle is among a user's first k; if it is not, what would bring it there.

    The smallest part of the history without which it would not be there, or the smallest additions to the history
    (`of="history"`) or swaps in the bundle (`of="contents"`) that bring it in.
    """
    artifact.require_whatif()
    k, budget = list_length(artifact, k), whole_number(budget, "budget")
    if of not in ("history", "contents"):
        raise InputError(f"of = {of!r}: expected 'history' or 'contents'", "of")
    who, what = artifact.users.index(user), artifact.bundles.index(bundle)
    state = factual_state(artifact)
    if what in neighbours(state.graph.ub.pairs, who):
        raise InputError(f"user {user} has chosen bundle {bundle} already, so it is not recommended")
    assert isinstance(artifact.model, Encoder)
    encoder = Reencoder(artifact.model, state.graph)
    case = Case(state, encoder, who, what, k, state.rank(who, what), budget)
    if case.rank <= k and of == "contents":
        raise InputError(f"bundle {bundle} has rank {case.rank} in user {user}'s list already; ask why it is there")
    if case.rank <= k:
        return _why(case, order or by_influence)
    return _additions(case, order or by_influence) if of == "history" else _swaps(case)


def _why(case: Case, order: Order) -> Explanation:
    used = type(case.state.artifact.model).relations
    history = [
        HistoryEdge(relation, int(node))
        for relation, edges in (("ui", case.state.graph.ui), ("ub", case.state.graph.ub))
        if relation in used
        for node in neighbours(edges.pairs, case.user)
    ]
    ordered = order(case.state, case.user, case.bundle, case.k, history)
    return search_edits(case, "why", ordered, lambda chosen: history_edits(case.user, drop=chosen))


def _additions(case: Case, order: Order) -> Explanation:
    ordered = order(case.state, case.user, case.bundle, case.k, _candidates(case))[:CANDIDATES]
    return search_edits(case, "history", ordered, lambda chosen: history_edits(case.user, add=chosen))


def _candidates(case: Case) -> list[HistoryEdge]:
    """The most promising additions to the user's history."""
    items, bundles = influence(case.state, case.user, case.bundle, case.k)
    graph, artifact = case.state.graph, case.state.artifact
    used = type(artifact.model).relations
    candidates: list[HistoryEdge] = []
    for relation, values, edges in (("ui", items, graph.ui), ("ub", bundles, graph.ub)):
        if relation not in used:
            continue
        values = values.clone()
        values[neighbours(edges.pairs, case.user).astype(np.int64)] = -torch.inf
        if relation == "ub":  # choosing the bundle itself is no answer, and the unseen one cannot be chosen
            values[[case.bundle, artifact.unseen_bundle]] = -torch.inf
        best = values.topk(min(CANDIDATES, len(values)))
        candidates += [
            HistoryEdge(relation, int(node))
            for value, node in zip(best.values, best.indices, strict=True)
            if value > -torch.inf
        ]
    return candidates


def _swaps(case: Case) -> Explanation:
    """Replace the bundle's items that fit the user least by items that fit the user best."""
    state, artifact = case.state, case.state.artifact
    if "bi" not in type(artifact.model).relations:
        raise UnsupportedError(
            f"{artifact.about.model} does not use a bundle's contents: ask for additions to the history instead"
        )
    assert isinstance(artifact.model, Encoder)
    fit = item_effects(artifact.model, state.embeddings, state.graph, torch.tensor([case.user]), case.bundle)[0]
    inside = neighbours(state.graph.bi.pairs, case.bundle).astype(np.int64)
    leaving = inside[np.argsort(fit[inside].numpy(), kind="stable")]
    fit[inside] = -torch.inf
    coming = fit.topk(min(len(leaving), len(fit) - len(inside))).indices.numpy()
    swaps = [ItemSwap(int(old), int(new)) for old, new in zip(leaving, coming, strict=False)]
    return search_edits(case, "contents", swaps, lambda chosen: _swap_edits(case.bundle, chosen))


def by_influence(state: State, user: int, bundle: int, k: int, candidates: Sequence[HistoryEdge]) -> list[HistoryEdge]:
    """The candidates with the largest first-order influence first."""
    items, bundles = influence(state, user, bundle, k)
    value = {"ui": items, "ub": bundles}
    return sorted(candidates, key=lambda edge: -float(value[edge.relation][edge.node]))


def influence(state: State, user: int, bundle: int, k: int) -> tuple[Tensor, Tensor]:
    """For every item and every bundle: how much choosing it would raise the margin, to first order.

    The gradient of the margin by the user's vector is the bundle's vector less that of its rival at the edge of the
    list; a choice moves the user's vector towards the chosen node, the less the more users that node has.
    """
    rival = rival_of(state, user, bundle, k)
    graph, items, bundles = state.graph, torch.zeros(state.graph.items), torch.zeros(state.graph.bundles)
    levels = [level for name, level in state.embeddings.levels.items() if name != COLD_LEVEL]
    bundle_levels = [level for level in levels if level.items is None] or levels
    for level in levels:
        if level.items is not None:
            items += level.items @ _gradient(level, bundle, rival) / graph.ui.right_degrees.clamp(min=1).sqrt()
    for level in bundle_levels:
        bundles += level.bundles @ _gradient(level, bundle, rival) / graph.ub.right_degrees.clamp(min=1).sqrt()
    return items, bundles


def rival_of(state: State, user: int, bundle: int, k: int) -> int:
    """The bundle at the edge of the list: the one that would enter if `bundle` left, or leave if it entered."""
    edge = state.ranking(user, min(k + 1, state.artifact.about.bundles))
    others = [one for one in edge if one != bundle]
    return others[:k][-1] if others else bundle


def _gradient(level: Level, bundle: int, rival: int) -> Tensor:
    return level.bundles[bundle] - level.bundles[rival]


def history_edits(user: int, *, add: Sequence[HistoryEdge] = (), drop: Sequence[HistoryEdge] = ()) -> EdgeEdits:
    """Edits of a user's history."""
    return EdgeEdits(add=_by_relation(user, add), drop=_by_relation(user, drop))


def _by_relation(user: int, edges: Sequence[HistoryEdge]) -> dict[Relation, Pairs]:
    pairs: dict[Relation, list[tuple[int, int]]] = {}
    for edge in edges:
        pairs.setdefault(edge.relation, []).append((user, edge.node))
    return {relation: np.array(found, np.int32) for relation, found in pairs.items()}


def _swap_edits(bundle: int, swaps: Sequence[ItemSwap]) -> EdgeEdits:
    return EdgeEdits(
        add={"bi": np.array([(bundle, swap.new) for swap in swaps], np.int32)},
        drop={"bi": np.array([(bundle, swap.old) for swap in swaps], np.int32)},
    )
