"""Samplers: which pairs a counterfactual view adds and which it drops.

All of them see the graph that they are given and nothing else; given the factual graph, that is training pairs alone.
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

from clbr.counterfactual.pool import Choice, Filling, Passed, Pool
from clbr.data.pairs import Codes, Relation, decode
from clbr.errors import InputError
from clbr.graph import kernels
from clbr.graph.edits import RELATIONS, EdgeEdits
from clbr.graph.graph import BundleGraph
from clbr.models.base import Embeddings

ROUND = 1 << 17
"""Pairs judged at once, about: enough to keep the processor busy, little enough to stay in its cache."""
PATIENCE = 1 << 22
"""Pairs judged in vain before a sampler gives up."""
SLOWEST = 64
"""Batches for an edit, on average, before it gives up: the best of a batch always passes, if it is new."""


Record = dict[Relation, dict[str, float]]
"""What a view did to each relation that it edits, and how it came to it."""


class Sampler(ABC):
    """Chooses pairs to add and to drop."""

    def __init__(self, graph: BundleGraph) -> None:
        self.graph = graph
        self.pools = {relation: Pool(graph, relation) for relation in RELATIONS}

    @abstractmethod
    def choose(self, relation: Relation, count: int, rng: np.random.Generator) -> Choice:
        """`count` distinct edits of a relation; refused if it has not so many to give."""

    def draw(self, ratios: Mapping[Relation, float], rng: np.random.Generator) -> tuple[EdgeEdits, Record]:
        """A view: floor(ratio * edges) edits of each relation, and the record of how they were found."""
        add, drop, record = {}, {}, Record()
        for relation, ratio in ratios.items():
            if not 0 <= ratio < 1:
                raise InputError(f"ratio of {relation} = {ratio}: expected at least 0 and less than 1")
            pool = self.pools[relation]
            count = floor(round(ratio * len(pool.edges), 6))
            if count:
                choice = self.choose(relation, count, rng)
                add[relation], drop[relation] = (decode(np.sort(x), pool.width) for x in (choice.add, choice.drop))
                record[relation] = {"added": len(choice.add), "dropped": len(choice.drop)} | choice.record
        return EdgeEdits(add, drop), record


class EdgeDropout(Sampler):
    """The control: drops edges by chance, adds nothing."""

    def choose(self, relation: Relation, count: int, rng: np.random.Generator) -> Choice:
        """Edges, all equally likely."""
        return Choice(np.empty(0, np.int64), self.pools[relation].connected(count, rng))


class Stochastic(Sampler):
    """Adds and drops by chance; `share` of the edits of a relation are additions."""

    def __init__(self, graph: BundleGraph, share: Mapping[Relation, float]) -> None:
        super().__init__(graph)
        self.share = share

    def choose(self, relation: Relation, count: int, rng: np.random.Generator) -> Choice:
        """Unconnected pairs and edges, all equally likely."""
        pool, added = self.pools[relation], round(self.share[relation] * count)
        return Choice(pool.unconnected(added, rng), pool.connected(count - added, rng))


class Scored(Sampler):
    """A sampler that knows what a trained model makes of pairs."""

    def __init__(self, graph: BundleGraph, embeddings: Embeddings, batch: int) -> None:
        super().__init__(graph)
        self.embeddings, self.batch = embeddings, batch
        self.edge_scores: dict[Relation, NDArray[np.float32]] = {}

    def vectors(self, relation: Relation) -> list[tuple[Tensor, Tensor]]:
        """Left and right vectors, level by level, whose inner products are the relevance of pairs."""
        both = [(a.detach().cpu(), b.detach().cpu()) for a, b in self.embeddings.both_sides(relation)]
        if not both:
            raise InputError(f"{relation}: the model has no vectors to judge such pairs by; set its ratio to 0")
        return both

    def of_edges(self, relation: Relation) -> NDArray[np.float32]:
        """The relevance of every edge; worked out once."""
        if relation not in self.edge_scores:
            self.edge_scores[relation] = self.of_pairs(relation, self.graph.edges(relation).pairs)
        return self.edge_scores[relation]

    def of_pairs(self, relation: Relation, pairs: NDArray[np.integer]) -> NDArray[np.float32]:
        """The relevance of some pairs."""
        lefts, rights = (np.ascontiguousarray(ids, np.int64) for ids in pairs.T)
        scores = np.zeros(len(pairs), np.float32)
        for left, right in self.vectors(relation):
            if kernels.available:
                kernels.pair_products(left.numpy(), right.numpy(), lefts, rights, scores)
                continue
            for start in range(0, len(pairs), ROUND):  # so that copies of vectors stay few
                some = slice(start, start + ROUND)
                ours, theirs = left[torch.from_numpy(lefts[some])], right[torch.from_numpy(rights[some])]
                scores[some] += (ours * theirs).sum(1).numpy()
        return scores

    advice: ClassVar[str]
    """How to get more pairs to pass."""

    @abstractmethod
    def judge(self, relation: Relation, turns: int, rng: np.random.Generator) -> tuple[Passed, Passed]:
        """What passes to be added and to be dropped in so many turns."""

    def choose(self, relation: Relation, count: int, rng: np.random.Generator) -> Choice:
        """Turn by turn until there are enough; of the last batch, as many as are wanted, by chance."""
        filling = Filling(count)
        judged, idle, turns = 0, 0, max(1, ROUND // 2 // self.batch)
        while not filling.full:
            if idle * self.batch > PATIENCE or judged > SLOWEST * count + PATIENCE // self.batch:
                raise InputError(
                    f"{relation}: too few pairs pass in batches of {self.batch:,} ({self}); {judged:,} batches gave "
                    f"{filling.size:,} of {count:,} edits: lower ratio_{relation}, or {self.advice}"
                )
            before = filling.size
            filling.take(*self.judge(relation, turns, rng), rng)
            judged += turns
            idle = 0 if filling.size > before else idle + turns
            rate = max(filling.size / judged, 1e-9)
            turns = int(np.clip((count - filling.size) / rate * 1.1, 8, max(8, ROUND // self.batch)))
        return filling.choice(self.batch)

    def batches(
        self, relation: Relation, count: int, rng: np.random.Generator
    ) -> tuple[Codes, NDArray[np.float32], NDArray[np.bool_]]:
        """`count` batches of pairs, all pairs equally likely: codes, relevance and whether they are edges.

        Pairs are taken from small random blocks of left times right nodes, whose scores are matrix products, and then
        shuffled among the batches, so that those of a block are spread over them. To fetch both vectors of each pair
        instead takes ten times as long.
        """
        pool, wanted = self.pools[relation], count * self.batch
        side = min(32, isqrt(wanted))
        blocks = -(-wanted // side**2)
        lefts, rights = (rng.integers(nodes, size=(blocks, side)) for nodes in pool.shape)
        scores = torch.zeros(blocks, side, side)
        for left, right in self.vectors(relation):
            ours = left.index_select(0, torch.from_numpy(lefts).view(-1)).view(blocks, side, -1)
            theirs = right.index_select(0, torch.from_numpy(rights).view(-1)).view(blocks, side, -1)
            scores.baddbmm_(ours, theirs.transpose(1, 2))
        order = rng.permutation(blocks * side**2)[:wanted]
        codes = (lefts[:, :, None] * pool.width + rights[:, None, :]).ravel()[order]
        judged = scores.view(-1).numpy()[order]
        shape = (count, self.batch)
        return codes.reshape(shape), judged.reshape(shape), pool.are_edges(codes).reshape(shape)


class Heuristic(Scored):
    """Adds what scores near the best of a batch and drops what scores near the worst (the paper's equation 2).

    Additions are judged in batches of unconnected pairs and drops in batches of edges, in turn. Taken literally
    (`literal`), both are judged in batches of any pairs, among which edges are so rare that hardly one is dropped.
    """

    advice = "set upper (a+) or sampler_batch lower"

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

    def judge(self, relation: Relation, turns: int, rng: np.random.Generator) -> tuple[Passed, Passed]:
        """A batch to add from and a batch to drop from at every turn."""
        codes, scores, edges = self.batches(relation, turns, rng)
        connected = int(edges.sum())
        additions = Passed.of(codes, self.additions(scores, edges), edges.size - connected)
        if self.literal:
            low = scores <= self.below(scores.min(1))[:, None]
            return additions, Passed.of(codes, low & edges, connected)
        known, all_edges = self.of_edges(relation), self.pools[relation].edges
        at = rng.integers(len(all_edges), size=(turns, self.batch))
        if self.batch >= len(all_edges):
            at = np.tile(np.arange(len(all_edges)), (turns, 1))
        low = known[at] <= self.below(known[at].min(1))[:, None]
        return additions, Passed.of(all_edges[at], low, low.size)

    def additions(self, scores: NDArray[np.float32], edges: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which pairs of batches, one a row, score near enough to the best of their batch to be added."""
        rivals = scores if self.literal else np.where(edges, np.float32(-np.inf), scores)
        best = rivals.max(1)
        bars = np.where(np.isfinite(best), self.above(best), np.inf)
        return np.asarray(~edges & (rivals > bars[:, None]))

    def above(self, best: NDArray[np.float32]) -> NDArray[np.float32]:
        """a+ times the best score, read so that it is below the best where scores are negative, too."""
        return np.asarray(best - (1 - self.upper) * np.abs(best), np.float32)

    def below(self, worst: NDArray[np.float32]) -> NDArray[np.float32]:
        """a- times the worst score, read so that it is above the worst where scores are negative, too."""
        return np.asarray(worst + (self.lower - 1) * np.abs(worst), np.float32)


class Casr(Scored):
    """Adds the user-bundle pairs that would teach most (Wang et al., SIGIR 2021, after its model-oriented sampler).

    Among the unconnected pairs of a batch, those within the top `confident` of the user's bundles; of these the tenth
    with the largest -ln sigmoid(score - score of a random bundle that the user lacks).
    """

    advice = "set confident higher"

    def __init__(self, graph: BundleGraph, embeddings: Embeddings, batch: int = 256, confident: float = 0.1) -> None:
        super().__init__(graph, embeddings, batch)
        self.confident = confident

    def __str__(self) -> str:
        return f"confident = {self.confident}"

    @cached_property
    def bars(self) -> NDArray[np.float32]:
        """For each user the score that the top share of her bundles reach."""
        users, bundles = self.embeddings.joined("users"), self.embeddings.joined("bundles")
        place = max(1, round(self.confident * len(bundles)))
        blocks = users.split(1024)  # type: ignore[no-untyped-call]
        return torch.cat([(block @ bundles.T).topk(place, dim=1).values[:, -1] for block in blocks]).numpy()

    def choose(self, relation: Relation, count: int, rng: np.random.Generator) -> Choice:
        """Only user-bundle pairs, only additions."""
        if relation != "ub":
            raise InputError(f"{relation}: casr edits user-bundle pairs only; set its ratio to 0")
        return super().choose(relation, count, rng)

    def judge(self, relation: Relation, turns: int, rng: np.random.Generator) -> tuple[Passed, Passed]:
        """Of each batch the tenth of the confident pairs that is worth most; nothing is dropped."""
        pool = self.pools[relation]
        codes, scores, edges = self.batches(relation, turns, rng)
        users = codes // pool.width
        sure = ~edges & (scores >= self.bars[users])
        others = pool.lacking(users[sure], rng)
        worth = np.full(scores.shape, -np.inf, np.float32)
        worth[sure] = np.logaddexp(0, self.of_pairs("ub", decode(others, pool.width)) - scores[sure])
        places = np.argsort(np.argsort(-worth, axis=1, kind="stable"), axis=1, kind="stable")
        taken = sure & (places < np.maximum(1, sure.sum(1) // 10)[:, None])
        return Passed.of(codes, taken, int((~edges).sum())), Passed.none()
