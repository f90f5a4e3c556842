"""Why this bundle, and what would it take? The smallest edits that take it out of a user's list, or bring it in.

Candidates are ordered by their influence on the margin: how much of its score's lead over the bundle at the edge of the
list a thing accounts for, to first order. Every answer is then seen to hold by propagating the edited graph.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from clbr.data.pairs import Pairs, Relation
from clbr.errors import InputError
from clbr.graph.edits import EdgeEdits
from clbr.inference.artifact import Artifact
from clbr.inference.recommend import of_left, require_k
from clbr.inference.smallest import smallest
from clbr.inference.whatif import State, edited, factual
from clbr.models.base import Level
from clbr.models.registry import find_model

BUDGET = 100
"""Sets of edits that are tried at most."""
CANDIDATES = 256
"""Of all that could be added, the most promising so many are looked at."""

Question = Literal["why", "history", "contents"]


class Thing(NamedTuple):
    """Something of a user's history: an item ("ui") or a bundle ("ub")."""

    relation: Relation
    node: int


class Swap(NamedTuple):
    """An item of a bundle and another in its place."""

    old: int
    new: int


@dataclass(frozen=True)
class Explanation:
    """The edits, seen to do it; None if none were found. Places count from 1 in the user's whole list."""

    question: Question
    user: int
    bundle: int
    k: int
    place: int
    edits: EdgeEdits | None
    things: list[Thing]
    swaps: list[Swap]
    rank_after: int | None
    tried: int
    out_of_budget: bool
    """Whether nothing was found because the budget was spent, and not because nothing more was to be tried."""


Order = Callable[[State, int, int, int, Sequence[Thing]], list[Thing]]
"""Puts the things of a user into an order of promise for (state, user, bundle, k)."""


def rank_of(state: State, user: int, bundle: int) -> int:
    """Where a bundle stands in a user's list, from 1; what she has chosen is in nobody's way."""
    scores = state.scores(user)
    own = scores[bundle].clone()
    scores[[state.artifact.unseen_bundle, *of_left(state.graph.ub.pairs, user)]] = -torch.inf
    return 1 + int((scores > own).sum() + (scores[:bundle] == own).sum())


def why(
    artifact: Artifact, user: int, bundle: int, k: int = 20, *, budget: int = BUDGET, order: Order | None = None
) -> Explanation:
    """The smallest part of a user's history without which a bundle would not be among her first k."""
    state, place = _asked(artifact, user, bundle, k)
    if place > k:
        raise InputError(
            f"{_named(artifact, bundle)} is at place {place:,} of user {artifact.users.id(user)}'s list, not among the "
            f"first {k}: ask what it would take to bring it there"
        )
    looked_at = find_model(artifact.about.model).relations
    things = [
        Thing(relation, int(node))
        for relation, edges in (("ui", state.graph.ui), ("ub", state.graph.ub))
        if relation in looked_at
        for node in of_left(edges.pairs, user)
    ]
    ordered = (order or by_influence)(state, user, bundle, k, things)

    def takes_it_out(chosen: list[Thing]) -> bool:
        return rank_of(edited(artifact, history(user, drop=chosen)), user, bundle) > k

    found = smallest(ordered, takes_it_out, budget)
    edits = history(user, drop=found.chosen) if found.chosen else None
    return _explained("why", state, user, bundle, k, place, edits, found.chosen or [], [], found.tried, budget)


def what_it_takes(
    artifact: Artifact,
    user: int,
    bundle: int,
    k: int = 20,
    *,
    of: Literal["history", "contents"] = "history",
    budget: int = BUDGET,
    order: Order | None = None,
) -> Explanation:
    """The smallest additions to a user's history, or swaps in a bundle, that bring it among her first k."""
    state, place = _asked(artifact, user, bundle, k)
    if place <= k:
        raise InputError(
            f"{_named(artifact, bundle)} is at place {place} of user {artifact.users.id(user)}'s list already; ask why"
        )
    if of == "contents":
        return _swaps(state, user, bundle, k, place, budget)
    ordered = _additions(state, user, bundle, k, order)

    def brings_it_in(chosen: list[Thing]) -> bool:
        return rank_of(edited(artifact, history(user, add=chosen)), user, bundle) <= k

    found = smallest(ordered, brings_it_in, budget)
    edits = history(user, add=found.chosen) if found.chosen else None
    return _explained("history", state, user, bundle, k, place, edits, found.chosen or [], [], found.tried, budget)


def by_influence(state: State, user: int, bundle: int, k: int, things: Sequence[Thing]) -> list[Thing]:
    """The things whose vectors point most from the bundle at the edge of the list towards this one come first."""
    items, bundles = influence(state, user, bundle, k)
    value = {"ui": items, "ub": bundles}
    return sorted(things, key=lambda thing: -float(value[thing.relation][thing.node]))


def influence(state: State, user: int, bundle: int, k: int) -> tuple[Tensor, Tensor]:
    """For every item and every bundle how much choosing it would move a user towards a bundle, to first order.

    The margin is the bundle's score less that of the k-th (or of the next, if it is among the first k), so its gradient
    by the user's vector is the difference of the two bundles' vectors; a choice pulls the user towards what is chosen.
    """
    rival = rival_of(state, user, bundle, k)
    graph, items, bundles = state.graph, torch.zeros(state.graph.items), torch.zeros(state.graph.bundles)
    levels = list(state.embeddings.levels.values())
    bundle_levels = [level for level in levels if level.items is None] or levels
    for level in levels:
        if level.items is not None:
            items += level.items @ _gradient(level, bundle, rival) / graph.ui.right_degrees.clamp(min=1).sqrt()
    for level in bundle_levels:
        bundles += level.bundles @ _gradient(level, bundle, rival) / graph.ub.right_degrees.clamp(min=1).sqrt()
    return items, bundles


def rival_of(state: State, user: int, bundle: int, k: int) -> int:
    """The bundle that would take its place among the first k, or that holds the place it would have to take."""
    edge = state.ranking(user, min(k + 1, state.artifact.about.bundles))
    others = [place.bundle for place in edge if place.bundle != bundle]
    return others[:k][-1] if others else bundle


def _gradient(level: Level, bundle: int, rival: int) -> Tensor:
    return level.bundles[bundle] - level.bundles[rival]


def _additions(state: State, user: int, bundle: int, k: int, order: Order | None) -> list[Thing]:
    """What could be added to her history, the most promising of it, in order."""
    items, bundles = influence(state, user, bundle, k)
    looked_at = find_model(state.artifact.about.model).relations
    things: list[Thing] = []
    for relation, values, edges in (("ui", items, state.graph.ui), ("ub", bundles, state.graph.ub)):
        if relation not in looked_at:
            continue
        values = values.clone()
        values[of_left(edges.pairs, user).astype(np.int64)] = -torch.inf
        if relation == "ub":  # choosing it is not an answer, and the spare one is nothing to choose
            values[[bundle, state.artifact.unseen_bundle]] = -torch.inf
        best = values.topk(min(CANDIDATES, len(values)))
        things += [
            Thing(relation, int(node))
            for value, node in zip(best.values, best.indices, strict=True)
            if value > -torch.inf
        ]
    return (order or by_influence)(state, user, bundle, k, things)[:CANDIDATES]


def _swaps(state: State, user: int, bundle: int, k: int, place: int, budget: int) -> Explanation:
    """Put items that fit the user in the place of those of the bundle that fit her least."""
    artifact = state.artifact
    if "bi" not in find_model(artifact.about.model).relations:
        raise InputError(
            f"{artifact.about.model} does not look at what is in a bundle: ask for additions to her history"
        )
    fit = torch.zeros(state.graph.items)
    for level in state.embeddings.levels.values():
        if level.items is not None:
            fit += level.items @ level.users[user]
    inside = of_left(state.graph.bi.pairs, bundle).astype(np.int64)
    if not len(inside):
        return _explained("contents", state, user, bundle, k, place, None, [], [], 0, budget)
    leaving = inside[np.argsort(fit[inside].numpy(), kind="stable")]
    fit[inside] = -torch.inf
    coming = fit.topk(min(len(leaving), len(fit) - len(inside))).indices.numpy()
    swaps = [Swap(int(old), int(new)) for old, new in zip(leaving, coming, strict=False)]

    def brings_it_in(chosen: list[Swap]) -> bool:
        return rank_of(edited(artifact, _contents(bundle, chosen)), user, bundle) <= k

    found = smallest(swaps, brings_it_in, budget)
    edits = _contents(bundle, found.chosen) if found.chosen else None
    return _explained("contents", state, user, bundle, k, place, edits, [], found.chosen or [], found.tried, budget)


def _explained(
    question: Question,
    state: State,
    user: int,
    bundle: int,
    k: int,
    place: int,
    edits: EdgeEdits | None,
    things: list[Thing],
    swaps: list[Swap],
    tried: int,
    budget: int,
) -> Explanation:
    """The answer, seen to hold once more."""
    after = None
    if edits is not None:
        after = rank_of(edited(state.artifact, edits), user, bundle)
        if (after > k) != (question == "why"):
            raise RuntimeError(f"edits that were seen to do it do not: place {after} of {k}")
    spent = edits is None and tried >= budget
    return Explanation(question, user, bundle, k, place, edits, things, swaps, after, tried, spent)


def _asked(artifact: Artifact, user: int, bundle: int, k: int) -> tuple[State, int]:
    """Things as they are, and the bundle's place in the user's list; refused if she has chosen it."""
    require_k(artifact, k)
    state = factual(artifact)
    if bundle in of_left(state.graph.ub.pairs, user):
        raise InputError(f"user {artifact.users.id(user)} has chosen {_named(artifact, bundle)}; it is not recommended")
    return state, rank_of(state, user, bundle)


def _named(artifact: Artifact, bundle: int) -> str:
    return f"bundle {artifact.bundles.id(bundle)}"


def history(user: int, *, add: Sequence[Thing] = (), drop: Sequence[Thing] = ()) -> EdgeEdits:
    """Edits of a user's history."""
    return EdgeEdits(add=_by_relation(user, add), drop=_by_relation(user, drop))


def _by_relation(user: int, things: Sequence[Thing]) -> dict[Relation, Pairs]:
    pairs: dict[Relation, list[tuple[int, int]]] = {}
    for thing in things:
        pairs.setdefault(thing.relation, []).append((user, thing.node))
    return {relation: np.array(found, np.int32) for relation, found in pairs.items()}


def _contents(bundle: int, swaps: Sequence[Swap]) -> EdgeEdits:
    return EdgeEdits(
        add={"bi": np.array([(bundle, swap.new) for swap in swaps], np.int32)},
        drop={"bi": np.array([(bundle, swap.old) for swap in swaps], np.int32)},
    )
