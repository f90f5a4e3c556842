"""Explanations: the smallest edits that take a bundle out of a user's list, or bring it in.

Candidates are ordered by their first-order influence on the margin: the bundle's score less that of the bundle at the
edge of the list. Every answer is then verified by a what-if with its edits.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from clbr.config import whole_number
from clbr.data.pairs import SIDES, Pairs, Relation, neighbours
from clbr.errors import InputError, UnsupportedError
from clbr.graph.edits import EdgeEdits
from clbr.inference.answers import Attempt, Evidence, Explanation, Question, Swap
from clbr.inference.artifact import Artifact
from clbr.inference.item_effects import item_effects
from clbr.inference.reencoder import Reencoder
from clbr.inference.stopping import check_stop
from clbr.inference.subset_search import greedy_subset, smallest_subset
from clbr.inference.whatif import State, factual_state, list_length
from clbr.models.base import Encoder
from clbr.models.cold import COLD_LEVEL
from clbr.models.embeddings import Level

BUDGET = 100
"""Sets of edits that are tried at most."""
CANDIDATES = 256
"""Possible additions that are considered: the most promising ones."""
HANDFUL = 5
"""A bundle that more edits than this would have to bring in is out of reach."""
POOL = 16
"""Edits that the first step of the greedy search compares; each later step compares half as many."""
RESERVED = 2 + 2 * POOL - 1
"""Tries of the budget, a third at most: for the numbers of edits that doubling leaves out (3, 5), and to be greedy."""


class HistoryEdge(NamedTuple):
    """An item ("ui") or a bundle ("ub") of a user's history."""

    relation: Relation
    node: int


class ItemSwap(NamedTuple):
    """An item of a bundle, and the item that replaces it."""

    old: int
    new: int


Edit = TypeVar("Edit", HistoryEdge, ItemSwap)
Order = Callable[[State, int, int, int, Sequence[HistoryEdge]], list[HistoryEdge]]
"""Orders candidates by promise for (state, user, bundle, k)."""


class Case(NamedTuple):
    """A question: a bundle in a user's list, as it stands."""

    state: State
    encoder: Reencoder
    user: int
    bundle: int
    k: int
    rank: int
    budget: int

    def rank_after(self, edits: EdgeEdits) -> int:
        """The bundle's rank in the user's list after edits."""
        check_stop()
        graph, scores = self.encoder.user_scores(edits, self.user)
        return replace(self.state, graph=graph).rank_in(scores, self.user, self.bundle)


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
    return _search(case, "why", ordered, lambda chosen: history_edits(case.user, drop=chosen))


def _additions(case: Case, order: Order) -> Explanation:
    ordered = order(case.state, case.user, case.bundle, case.k, _candidates(case))[:CANDIDATES]
    return _search(case, "history", ordered, lambda chosen: history_edits(case.user, add=chosen))


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
    return _search(case, "contents", swaps, lambda chosen: _swap_edits(case.bundle, chosen))


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


def _search(
    case: Case, question: Question, ordered: Sequence[Edit], edits_of: Callable[[Sequence[Edit]], EdgeEdits]
) -> Explanation:
    """The answer: the smallest edits found, or how near a handful of the most promising ones comes."""
    ranks: dict[frozenset[Edit], int] = {}

    def rank(chosen: Iterable[Edit]) -> int:
        edits = frozenset(chosen)
        if edits not in ranks:
            ranks[edits] = case.rank_after(edits_of([edit for edit in ordered if edit in edits]))
        return ranks[edits]

    def is_enough(chosen: Sequence[Edit]) -> bool:
        return (rank(chosen) > case.k) == (question == "why")

    budget = case.budget if question == "why" else max(1, case.budget - min(RESERVED, case.budget // 3))
    found = smallest_subset(ordered, is_enough, budget)
    chosen, out_of_reach = found.chosen or [], False
    if question != "why" and len(ordered) and not 0 < len(chosen) <= HANDFUL:
        for size in range(1, 1 + min(HANDFUL, len(ordered))):
            if len(ranks) < case.budget:
                rank(ordered[:size])
        pool = ordered[: min(POOL, (case.budget - len(ranks) + 1) // 2)]
        handful = greedy_subset(pool, rank, lambda rank: rank <= case.k, HANDFUL)
        chosen = handful or chosen
        out_of_reach = handful is None and len(pool) == min(POOL, len(ordered))
    return Explanation(
        question=question,
        user=case.state.artifact.node("user", case.user),
        bundle=case.state.artifact.node("bundle", case.bundle),
        k=case.k,
        rank=case.rank,
        found=len(chosen) > 0,
        out_of_budget=not chosen and found.tried >= budget,
        out_of_reach=out_of_reach,
        rank_after=rank(chosen) if chosen else None,
        tried=len(ranks),
        evidence=_evidence(case, chosen),
        swaps=_named_swaps(case, chosen),
        nearest=_nearest(case, ordered, ranks) if not 0 < len(chosen) <= HANDFUL and question != "why" else [],
        caveat=case.state.artifact.caveat,
    )


def _nearest(case: Case, ordered: Sequence[Edit], ranks: Mapping[frozenset[Edit], int]) -> list[Attempt]:
    """The best rank that was reached with 1, 2, ... edits up to a handful, where one more edit comes nearer."""
    found: list[Attempt] = []
    for size in range(1, HANDFUL + 1):
        if not (tried := [chosen for chosen in ranks if len(chosen) == size]):
            continue
        best = min(tried, key=lambda chosen: ranks[chosen])
        if ranks[best] < (found[-1].rank if found else case.rank):
            edits = [edit for edit in ordered if edit in best]
            evidence, swaps = _evidence(case, edits), _named_swaps(case, edits)
            found.append(Attempt(edits=size, rank=ranks[best], evidence=evidence, swaps=swaps))
    return found


def _evidence(case: Case, edits: Sequence[HistoryEdge | ItemSwap]) -> list[Evidence]:
    found: list[Evidence] = []
    for edge in edits:
        if isinstance(edge, HistoryEdge):
            kind = SIDES[edge.relation][1]
            node: dict[str, Any] = case.state.artifact.node(kind, edge.node).model_dump()
            found.append(Evidence(kind=kind, **node))
    return found


def _named_swaps(case: Case, edits: Sequence[HistoryEdge | ItemSwap]) -> list[Swap]:
    named = case.state.artifact.node
    return [Swap(old=named("item", s.old), new=named("item", s.new)) for s in edits if isinstance(s, ItemSwap)]


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
