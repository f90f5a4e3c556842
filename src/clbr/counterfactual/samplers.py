"""Samplers: they select the pairs that a counterfactual view adds and drops.

A sampler uses only the graph that it is given. The factual graph holds training pairs only, so no sampler can use a
validation or test pair.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from math import floor, isqrt
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clbr.counterfactual.candidates import AcceptedPairs, CandidatePairs, EditCollector, RelationEdits
from clbr.data.pairs import Codes, Relation, decode
from clbr.errors import InputError
from clbr.graph import kernels
from clbr.graph.edits import RELATIONS, EdgeEdits
from clbr.graph.graph import BundleGraph
from clbr.models.embeddings import Embeddings

ROUND_PAIRS = 1 << 17
"""Approximate number of pairs scored at once: enough to use all cores, few enough to fit into the cache."""
MAX_PAIRS_WITHOUT_EDIT = 1 << 22
"""A sampler stops with an error if this many pairs in succession give no new edit."""
MAX_BATCHES_PER_EDIT = 64
"""A sampler stops with an error if it needs more batches per edit on average. The best pair of a batch always passes,
so a batch gives no edit only if all its accepted pairs were collected before."""

Record = dict[Relation, dict[str, float]]
"""For each edited relation of a view: the numbers of edits, and the sampler's batch size and pass rates."""


class Sampler(ABC):
    """Selects the pairs to add and to drop in a view."""

    def __init__(self, graph: BundleGraph) -> None:
        self.graph = graph
        self.candidates = {relation: CandidatePairs(graph, relation) for relation in RELATIONS}

    @abstractmethod
    def select(self, relation: Relation, count: int, rng: np.random.Generator) -> RelationEdits:
        """Select exactly `count` distinct edits of a relation. Raises `InputError` if there are not enough."""

    def draw(self, ratios: Mapping[Relation, float], rng: np.random.Generator) -> tuple[EdgeEdits, Record]:
        """Draw the edits of a view: floor(ratio * number of edges) edits of each relation, and their record."""
        add, drop, record = {}, {}, Record()
        for relation, ratio in ratios.items():
            if not 0 <= ratio < 1:
                raise InputError(f"ratio of {relation} = {ratio}: expected at least 0 and less than 1")
            candidates = self.candidates[relation]
            count = floor(round(ratio * len(candidates.edges), 6))
            if count:
                edits = self.select(relation, count, rng)
                add[relation], drop[relation] = (decode(np.sort(x), candidates.width) for x in (edits.add, edits.drop))
                record[relation] = {"added": len(edits.add), "dropped": len(edits.drop)} | edits.record
        return EdgeEdits(add, drop), record


class EdgeDropout(Sampler):
    """Control: drops random edges and adds nothing."""

    def select(self, relation: Relation, count: int, rng: np.random.Generator) -> RelationEdits:
        """Select edges to drop, all equally likely."""
        return RelationEdits(np.empty(0, np.int64), self.candidates[relation].draw_edges(count, rng))


class Stochastic(Sampler):
    """Adds and drops random pairs. `share` is the share of additions in the edits of each relation."""

    def __init__(self, graph: BundleGraph, share: Mapping[Relation, float]) -> None:
        super().__init__(graph)
        self.share = share

    def select(self, relation: Relation, count: int, rng: np.random.Generator) -> RelationEdits:
        """Select unconnected pairs to add and edges to drop, all equally likely."""
        candidates, added = self.candidates[relation], round(self.share[relation] * count)
        return RelationEdits(candidates.draw_unconnected(added, rng), candidates.draw_edges(count - added, rng))


class ScoredSampler(Sampler):
    """Sampler that selects pairs by the scores of a trained model, the selection model.

    Candidates are evaluated in batches of `batch` pairs; `embeddings` are the vectors of the selection model.
    """

    remedy: ClassVar[str]
    """What to change so that more pairs pass; the end of an error message."""

    def __init__(self, graph: BundleGraph, embeddings: Embeddings, batch: int) -> None:
        super().__init__(graph)
        self.embeddings, self.batch_size = embeddings, batch
        self._edge_scores: dict[Relation, NDArray[np.float32]] = {}

    @abstractmethod
    def evaluate_candidates(
        self, relation: Relation, batches: int, rng: np.random.Generator
    ) -> tuple[AcceptedPairs, AcceptedPairs]:
        """Draw and evaluate `batches` batches of candidates. Returns the pairs accepted to add and to drop."""

    def select(self, relation: Relation, count: int, rng: np.random.Generator) -> RelationEdits:
        """Evaluate candidates in rounds of several batches until `count` edits are collected."""
        collector, size = EditCollector(count), self.batch_size
        evaluated, without_edit, batches = 0, 0, max(1, ROUND_PAIRS // 2 // size)
        while not collector.complete:
            most = MAX_BATCHES_PER_EDIT * count + MAX_PAIRS_WITHOUT_EDIT // size
            if without_edit * size > MAX_PAIRS_WITHOUT_EDIT or evaluated > most:
                raise InputError(
                    f"{relation}: too few pairs pass in batches of {size:,} ({self}); {evaluated:,} batches gave "
                    f"{collector.size:,} of {count:,} edits: lower ratio_{relation}, or {self.remedy}"
                )
            before = collector.size
            collector.collect(*self.evaluate_candidates(relation, batches, rng), rng)
            evaluated += batches
            without_edit = 0 if collector.size > before else without_edit + batches
            edits_per_batch = max(collector.size / evaluated, 1e-9)
            needed = (count - collector.size) / edits_per_batch * 1.1
            batches = int(np.clip(needed, 8, max(8, ROUND_PAIRS // size)))
        return collector.result(size)

    def draw_batches(
        self, relation: Relation, count: int, rng: np.random.Generator
    ) -> tuple[Codes, NDArray[np.float32], NDArray[np.bool_]]:
        """Draw `count` batches of pairs, all pairs equally likely. Returns codes, scores, and whether each is an edge.

        Each array has one row per batch. The pairs come from random blocks of 32 left times 32 right nodes, whose
        scores are a matrix product; a permutation then spreads the pairs of a block over the batches. Gathering both
        vectors of every pair instead takes ten times as long.
        """
        candidates, pairs = self.candidates[relation], count * self.batch_size
        side = min(32, isqrt(pairs))
        blocks = -(-pairs // side**2)
        lefts, rights = (rng.integers(nodes, size=(blocks, side)) for nodes in candidates.shape)
        scores = torch.zeros(blocks, side, side)
        for left, right in self.vectors(relation):
            left_vectors = left.index_select(0, torch.from_numpy(lefts).view(-1)).view(blocks, side, -1)
            right_vectors = right.index_select(0, torch.from_numpy(rights).view(-1)).view(blocks, side, -1)
            scores.baddbmm_(left_vectors, right_vectors.transpose(1, 2))
        order = rng.permutation(blocks * side**2)[:pairs]
        codes = (lefts[:, :, None] * candidates.width + rights[:, None, :]).ravel()[order]
        shape = (count, self.batch_size)
        chosen_scores = scores.view(-1).numpy()[order].reshape(shape)
        return codes.reshape(shape), chosen_scores, candidates.are_edges(codes).reshape(shape)

    def vectors(self, relation: Relation) -> list[tuple[Tensor, Tensor]]:
        """Return the left and the right vectors of each level. A score is the sum of the levels' inner products."""
        levels = [(left.detach().cpu(), right.detach().cpu()) for left, right in self.embeddings.both_sides(relation)]
        if not levels:
            raise InputError(f"{relation}: the selection model cannot score these pairs; set ratio_{relation} to 0")
        return levels

    def edge_scores(self, relation: Relation) -> NDArray[np.float32]:
        """Return the score of every edge of a relation. They are cached."""
        if relation not in self._edge_scores:
            self._edge_scores[relation] = self.pair_scores(relation, self.graph.edges(relation).pairs)
        return self._edge_scores[relation]

    def pair_scores(self, relation: Relation, pairs: NDArray[np.integer]) -> NDArray[np.float32]:
        """Return the score of each pair."""
        lefts, rights = (np.ascontiguousarray(ids, np.int64) for ids in pairs.T)
        scores = np.zeros(len(pairs), np.float32)
        for left, right in self.vectors(relation):
            if kernels.available:
                kernels.pair_products(left.numpy(), right.numpy(), lefts, rights, scores)
                continue
            for start in range(0, len(pairs), ROUND_PAIRS):  # bounds the memory of the gathered vectors
                part = slice(start, start + ROUND_PAIRS)
                left_rows, right_rows = left[torch.from_numpy(lefts[part])], right[torch.from_numpy(rights[part])]
                scores[part] += (left_rows * right_rows).sum(1).numpy()
        return scores


class Heuristic(ScoredSampler):
    """Adds pairs that score near the best of their batch, drops edges that score near the worst (paper, equation 2).

    Additions are evaluated in batches of unconnected pairs, drops in batches of edges. With `literal`, as the paper
    states it, both are evaluated in the same batches of any pairs; edges are so rare there that almost none is dropped.
    """

    remedy = "set upper (a+) or sampler_batch lower"

    def __init__(
        self,
        graph: BundleGraph,
        embeddings: Embeddings,
        batch: int = 256,
        upper: float = 0.8,
        lower: float = 1.2,
        literal: bool = False,
    ) -> None:
        super().__init__(graph, embeddings, batch)
        self.upper, self.lower, self.literal = upper, lower, literal

    def __str__(self) -> str:
        return f"upper = {self.upper}, lower = {self.lower}"

    def evaluate_candidates(
        self, relation: Relation, batches: int, rng: np.random.Generator
    ) -> tuple[AcceptedPairs, AcceptedPairs]:
        """Evaluate `batches` batches of candidates to add and as many batches of candidates to drop."""
        codes, scores, are_edges = self.draw_batches(relation, batches, rng)
        edge_count = int(are_edges.sum())
        accepted = self.accept_additions(scores, are_edges)
        additions = AcceptedPairs.of(codes, accepted, are_edges.size - edge_count)
        if self.literal:
            low = scores <= self.drop_threshold(scores.min(1))[:, None]
            return additions, AcceptedPairs.of(codes, low & are_edges, edge_count)
        edges, edge_scores = self.candidates[relation].edges, self.edge_scores(relation)
        drawn = rng.integers(len(edges), size=(batches, self.batch_size))
        if self.batch_size >= len(edges):
            drawn = np.tile(np.arange(len(edges)), (batches, 1))
        low = edge_scores[drawn] <= self.drop_threshold(edge_scores[drawn].min(1))[:, None]
        return additions, AcceptedPairs.of(edges[drawn], low, low.size)

    def accept_additions(self, scores: NDArray[np.float32], are_edges: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which pairs of the (batches, pairs) arrays are accepted as additions."""
        compared = scores if self.literal else np.where(are_edges, np.float32(-np.inf), scores)
        best = compared.max(1)
        thresholds = np.where(np.isfinite(best), self.addition_threshold(best), np.inf)
        return np.asarray(~are_edges & (compared > thresholds[:, None]))

    def addition_threshold(self, best: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return best - (1 - upper) |best|: a+ times the best score, below the best also if it is negative."""
        return np.asarray(best - (1 - self.upper) * np.abs(best), np.float32)

    def drop_threshold(self, worst: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return worst + (lower - 1) |worst|: a- times the worst score, above the worst also if it is negative."""
        return np.asarray(worst + (self.lower - 1) * np.abs(worst), np.float32)


class Casr(ScoredSampler):
    """Adds the user-bundle pairs with the largest loss (after the model-oriented sampler of Wang et al., SIGIR 2021).

    Of the unconnected pairs of a batch, those within the top `confident` share of the user's bundles are kept; of these
    the tenth with the largest -ln sigmoid(score - score of a random bundle that the user does not have) is added.
    """

    remedy = "set confident higher"

    def __init__(self, graph: BundleGraph, embeddings: Embeddings, batch: int = 256, confident: float = 0.1) -> None:
        super().__init__(graph, embeddings, batch)
        self.confident = confident

    def __str__(self) -> str:
        return f"confident = {self.confident}"

    @cached_property
    def confidence_thresholds(self) -> NDArray[np.float32]:
        """For each user the lowest score within the top `confident` share of all bundles."""
        users, bundles = self.embeddings.joined("users"), self.embeddings.joined("bundles")
        count = max(1, round(self.confident * len(bundles)))
        blocks = users.split(1024)  # type: ignore[no-untyped-call]
        return torch.cat([(block @ bundles.T).topk(count, dim=1).values[:, -1] for block in blocks]).numpy()

    def select(self, relation: Relation, count: int, rng: np.random.Generator) -> RelationEdits:
        """Select user-bundle pairs to add. Raises `InputError` for another relation."""
        if relation != "ub":
            raise InputError(f"{relation}: casr edits user-bundle pairs only; set ratio_{relation} to 0")
        return super().select(relation, count, rng)

    def evaluate_candidates(
        self, relation: Relation, batches: int, rng: np.random.Generator
    ) -> tuple[AcceptedPairs, AcceptedPairs]:
        """Accept the tenth of each batch's confident pairs that has the largest loss. Nothing is dropped."""
        candidates = self.candidates[relation]
        codes, scores, are_edges = self.draw_batches(relation, batches, rng)
        users = codes // candidates.width
        confident = ~are_edges & (scores >= self.confidence_thresholds[users])
        negatives = candidates.draw_unconnected_of(users[confident], rng)
        losses = np.full(scores.shape, -np.inf, np.float32)
        negative_scores = self.pair_scores("ub", decode(negatives, candidates.width))
        losses[confident] = np.logaddexp(0, negative_scores - scores[confident])
        ranks = np.argsort(np.argsort(-losses, axis=1, kind="stable"), axis=1, kind="stable")
        accepted = confident & (ranks < np.maximum(1, confident.sum(1) // 10)[:, None])
        return AcceptedPairs.of(codes, accepted, int((~are_edges).sum())), AcceptedPairs.none()
