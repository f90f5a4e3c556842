"""BundleGraph: the edges of three relations, and the operators computed from them once and cached."""

from collections.abc import Callable
from functools import cached_property
from typing import Self, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from clbr.data.dataset import BundleDataset
from clbr.data.pairs import Pairs, Relation, contains, encode
from clbr.graph.edits import RELATIONS, EdgeEdits
from clbr.graph.operators import Matrix, Pattern

Kept = TypeVar("Kept")


class Edges:
    """Edges of one relation, between left nodes (rows) and right nodes (columns).

    `plain`, `mean` and `symmetric` map right vectors to left vectors; `back_mean` and `back_symmetric` map left
    vectors to right vectors. In the formulas A is the adjacency matrix and D_left, D_right are the degrees.
    """

    def __init__(self, pairs: Pairs, shape: tuple[int, int], weights: Tensor | None = None) -> None:
        self.pairs, self.shape = pairs, shape
        self.weights = weights  # None: every edge has weight 1

    def __repr__(self) -> str:
        return f"Edges({len(self.pairs):,} of {self.shape[0]:,} x {self.shape[1]:,})"

    @cached_property
    def pattern(self) -> Pattern:
        """Sparsity pattern of A."""
        return Pattern.of(self.pairs, self.shape)

    @cached_property
    def plain(self) -> Matrix:
        """A: sum over the neighbours."""
        return Matrix(self.pattern, torch.ones(len(self.pairs)) if self.weights is None else self.weights)

    @cached_property
    def left_degrees(self) -> Tensor:
        """Sum of the edge weights of each left node: the number of its edges if they are not weighted."""
        if self.weights is None:  # counted without the matrix, which needs more memory
            return torch.from_numpy(np.diff(self.pattern.pointers)).to(torch.float32)
        return self.plain.row_sums()

    @cached_property
    def right_degrees(self) -> Tensor:
        """Sum of the edge weights of each right node: the number of its edges if they are not weighted."""
        if self.weights is None:
            return torch.from_numpy(np.bincount(self.pattern.columns, minlength=self.shape[1])).to(torch.float32)
        return self.plain.T.row_sums()

    @cached_property
    def mean(self) -> Matrix:
        """D_left^-1 A: mean over the neighbours of each left node."""
        return self.plain.scaled(left=power(self.left_degrees, -1))

    @cached_property
    def back_mean(self) -> Matrix:
        """D_right^-1 A': mean over the neighbours of each right node."""
        return self.plain.T.scaled(left=power(self.right_degrees, -1))

    @cached_property
    def symmetric(self) -> Matrix:
        """D_left^-1/2 A D_right^-1/2."""
        return self.plain.scaled(power(self.left_degrees, -0.5), power(self.right_degrees, -0.5))

    @property
    def back_symmetric(self) -> Matrix:
        """Transpose of `symmetric`."""
        return self.symmetric.T

    def only_connected(self, x: Tensor) -> Tensor:
        """Return left vectors with those of nodes without edges set to 0."""
        return x * (self.left_degrees > 0).to(x)[:, None]

    def without(self, left: Tensor, right: Tensor) -> "Edges":
        """Return the edges with these pairs at weight 0. Pairs that are not edges are ignored."""
        codes = encode(self.pairs, self.shape[1])
        wanted = left.cpu().numpy() * self.shape[1] + right.cpu().numpy()
        positions = np.searchsorted(codes, wanted[contains(codes, wanted)])
        weights = torch.ones(len(self.pairs)) if self.weights is None else self.weights.clone()
        weights[torch.from_numpy(positions)] = 0.0
        return self.reweighted(weights)

    def reweighted(self, weights: Tensor) -> "Edges":
        """Return the same edges with one weight per edge. The sparsity pattern is shared, not copied."""
        edges = Edges(self.pairs, self.shape, weights)
        edges.__dict__["pattern"] = self.pattern
        return edges


class BundleGraph:
    """User-bundle-item graph. It is immutable, and an argument of a model, never a part of it."""

    def __init__(self, ub: Edges, ui: Edges, bi: Edges) -> None:
        self.ub, self.ui, self.bi = ub, ui, bi
        self.users, self.bundles = ub.shape
        self.items = ui.shape[1]
        self._kept: dict[str, tuple[object, tuple[Relation, ...]]] = {}

    @classmethod
    def of(cls, dataset: BundleDataset) -> Self:
        """Return the factual graph: training pairs, user-item pairs and bundle-item pairs."""
        users, bundles, items = len(dataset.users), len(dataset.bundles), len(dataset.items)
        ub, ui = Edges(dataset.train, (users, bundles)), Edges(dataset.ui, (users, items))
        return cls(ub, ui, Edges(dataset.bi, (bundles, items)))

    def __repr__(self) -> str:
        return f"BundleGraph(ub {self.ub}, ui {self.ui}, bi {self.bi})"

    def edges(self, relation: Relation) -> Edges:
        """Return the edges of a relation ("ub", "ui" or "bi")."""
        return {"ub": self.ub, "ui": self.ui, "bi": self.bi}[relation]

    def edit(self, edits: EdgeEdits) -> "BundleGraph":
        """Return the graph after the edits. Unchanged relations and their cached operators are shared."""
        edited: dict[str, Edges] = {}
        for relation in RELATIONS:
            edges = self.edges(relation)
            if edits.touches(relation):
                edges = Edges(edits.apply_to(relation, edges.pairs, edges.shape), edges.shape)
            edited[relation] = edges
        return self.replaced(**edited)

    def replaced(self, **edges: Edges) -> "BundleGraph":
        """Return the graph with other edges for some relations. Operators of the other relations stay cached."""
        other = BundleGraph(**({"ub": self.ub, "ui": self.ui, "bi": self.bi} | edges))
        for name, (value, relations) in self._kept.items():
            if all(other.edges(relation) is self.edges(relation) for relation in relations):
                other._kept[name] = (value, relations)
        return other

    def keep(self, name: str, make: Callable[["BundleGraph"], Kept], *relations: Relation) -> Kept:
        """Return the cached value of this name, an operator for instance; `make(graph)` computes it on the first call.

        `relations` are all relations that the value depends on.
        """
        if name not in self._kept:
            self._kept[name] = (make(self), relations)
        return cast(Kept, self._kept[name][0])


def power(degrees: Tensor, exponent: float) -> Tensor:
    """Return degrees ** exponent, and 0 for nodes without edges."""
    return torch.where(degrees > 0, degrees.clamp(min=1e-12) ** exponent, torch.zeros(()))
