"""Search for the smallest edits that take a bundle out of a user's list, or bring it in.

The search computes ranks with fixed parameters (but for a user's own vector), which is fast. What it finds is verified
by a what-if, in which all parameters follow the edits; if they disagree, the search goes on.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Generic, NamedTuple, TypeVar

from clbr.data.pairs import SIDES, Relation
from clbr.graph.edits import EdgeEdits
from clbr.inference.answers import Attempt, Evidence, Explanation, Question, Swap
from clbr.inference.reencoder import Reencoder
from clbr.inference.stopping import check_stop
from clbr.inference.subset_search import greedy_subset, smallest_subset
from clbr.inference.whatif import State, edited_state

HANDFUL = 5
"""A bundle that more edits than this would have to bring in is out of reach."""
POOL = 16
"""Edits that the first step of the greedy search compares; each later step compares half as many."""
ROUNDS = 4
"""Searches at most, each for a larger change of the rank, until a what-if agrees."""
WHATIFS = 24
"""Sets of edits that are tried at most by what-ifs."""
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


class Case(NamedTuple):
    """A question: a bundle in a user's list, as it stands."""

    state: State
    encoder: Reencoder
    user: int
    bundle: int
    k: int
    rank: int
    budget: int

    def fast_rank(self, edits: EdgeEdits) -> int:
        """The bundle's rank in the user's list after edits, with parameters that do not follow them."""
        check_stop()
        graph, scores = self.encoder.user_scores(edits, self.user)
        return replace(self.state, graph=graph).rank_in(scores, self.user, self.bundle)

    def rank_after(self, edits: EdgeEdits) -> int:
        """The bundle's rank in the user's list after edits, as a what-if says."""
        return edited_state(self.state.artifact, edits).rank(self.user, self.bundle)


class _Ranks(Generic[Edit]):
    """The ranks after sets of edits, each computed once."""

    def __init__(self, compute: Callable[[frozenset[Edit]], int]) -> None:
        self.compute: Callable[[frozenset[Edit]], int] = compute
        self.known: dict[frozenset[Edit], int] = {}

    def of(self, chosen: Iterable[Edit]) -> int:
        """The rank after these edits."""
        edits = frozenset(chosen)
        if edits not in self.known:
            self.known[edits] = self.compute(edits)
        return self.known[edits]

    def may_compute(self, chosen: Iterable[Edit], budget: int) -> bool:
        """Whether the rank after these edits is known, or a budget of computed ranks allows another."""
        return len(self.known) < budget or frozenset(chosen) in self.known


class _Found(NamedTuple):
    """What a search chose; nothing if it found no set that passes."""

    chosen: list[Any]
    out_of_budget: bool = False
    out_of_reach: bool = False


def search_edits(
    case: Case, question: Question, ordered: Sequence[Edit], edits_of: Callable[[Sequence[Edit]], EdgeEdits]
) -> Explanation:
    """The answer: the smallest edits found, or how near a handful of the most promising ones comes."""

    def make(chosen: frozenset[Edit]) -> EdgeEdits:
        return edits_of([edit for edit in ordered if edit in chosen])

    fast: _Ranks[Edit] = _Ranks(lambda chosen: case.fast_rank(make(chosen)))
    exact = fast  # unless parameters follow the edits
    if case.encoder.model.own_vectors() is not None:
        exact = _Ranks(lambda chosen: case.rank_after(make(chosen)))
    why, limit = question == "why", case.k
    for _ in range(ROUNDS):
        found = _promising(case, why, ordered, fast, limit)
        if not found.chosen or (exact.of(found.chosen) > case.k) == why:
            break
        # Search again for a larger change: by as many ranks as are missing, and another set than this one.
        missing, reached = case.k - exact.of(found.chosen), fast.of(found.chosen)
        limit = max(limit + missing + 1, reached) if why else min(limit + missing, reached - 1)
        found = _Found([], found.out_of_budget, not why)
        if limit < 1:
            break
    if why and exact is not fast and not found.chosen and not found.out_of_budget:
        found = _by_whatifs(case, ordered, exact)
    nearest: list[Attempt] = []
    if not why and not 0 < len(found.chosen) <= HANDFUL:
        attempts = _attempts(ordered, fast)
        enough = next((edits for edits in attempts if exact.of(edits) <= case.k), None)
        found = _Found(enough) if enough else found
        nearest = [] if enough else _nearest(case, attempts, exact)
    return Explanation(
        question=question,
        user=case.state.artifact.node("user", case.user),
        bundle=case.state.artifact.node("bundle", case.bundle),
        k=case.k,
        rank=case.rank,
        found=len(found.chosen) > 0,
        out_of_budget=found.out_of_budget,
        out_of_reach=found.out_of_reach,
        rank_after=exact.of(found.chosen) if found.chosen else None,
        tried=len(fast.known.keys() | exact.known.keys()),
        evidence=_evidence(case, found.chosen),
        swaps=_named_swaps(case, found.chosen),
        nearest=nearest,
        caveat=case.state.artifact.caveat,
    )


def _promising(case: Case, why: bool, ordered: Sequence[Edit], ranks: _Ranks[Edit], limit: int) -> _Found:
    """The smallest set found that takes the rank above the limit (`why`), or to it."""
    budget = case.budget
    if not why:
        budget = min(budget, max(len(ranks.known) + 1, budget - min(RESERVED, budget // 3)))
    small = smallest_subset(
        ordered, lambda chosen: (ranks.of(chosen) > limit) == why, lambda chosen: ranks.may_compute(chosen, budget)
    )
    chosen, out_of_reach = small.chosen or [], False
    if not why and len(ordered) and not 0 < len(chosen) <= HANDFUL:
        for size in range(1, 1 + min(HANDFUL, len(ordered))):
            if len(ranks.known) < case.budget:
                ranks.of(ordered[:size])
        pool = ordered[: min(POOL, (case.budget - len(ranks.known) + 1) // 2)]
        handful = greedy_subset(pool, ranks.of, lambda rank: rank <= limit, HANDFUL)
        chosen = handful or chosen
        out_of_reach = handful is None and len(pool) == min(POOL, len(ordered))
    return _Found(chosen, not chosen and small.ended, out_of_reach)


def _by_whatifs(case: Case, ordered: Sequence[Edit], ranks: _Ranks[Edit]) -> _Found:
    """Why, where the fast ranks lead to nothing: nothing if the bundle stays without all of the history."""
    if not ordered or ranks.of(ordered) <= case.k:
        return _Found([])
    small = smallest_subset(
        ordered, lambda chosen: ranks.of(chosen) > case.k, lambda chosen: ranks.may_compute(chosen, WHATIFS)
    )
    return _Found(small.chosen or list(ordered))


def _attempts(ordered: Sequence[Edit], ranks: _Ranks[Edit]) -> list[list[Edit]]:
    """The best set that was tried of each number of edits up to a handful."""
    found: list[list[Edit]] = []
    for size in range(1, HANDFUL + 1):
        if tried := [chosen for chosen in ranks.known if len(chosen) == size]:
            best = min(tried, key=lambda chosen: ranks.known[chosen])
            found.append([edit for edit in ordered if edit in best])
    return found


def _nearest(case: Case, attempts: Sequence[Sequence[Edit]], ranks: _Ranks[Edit]) -> list[Attempt]:
    """The attempts that come nearer to the list than those with fewer edits."""
    found: list[Attempt] = []
    for edits in attempts:
        if (rank := ranks.of(edits)) < (found[-1].rank if found else case.rank):
            evidence, swaps = _evidence(case, edits), _named_swaps(case, edits)
            found.append(Attempt(edits=len(edits), rank=rank, evidence=evidence, swaps=swaps))
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
