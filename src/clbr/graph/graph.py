"""BundleGraph: three relations and the operators made of them, lazily, once, and kept."""

from collections.abc import Callable
from functools import cached_property
from typing import Self, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from clbr.data.dataset import BundleDataset
from clbr.data.pairs import Pairs, Relation, contains, encode
from clbr.graph.edits import EdgeEdits
from clbr.graph.operators import Matrix, Operator, Pattern

Made = TypeVar("Made", bound=Operator)


class Edges:
    """One relation's edges. `mean`, `symmetric` and so on map right-hand vectors to left-hand ones."""

    def __init__(self, pairs: Pairs, shape: tuple[int, int], weights: Tensor | None = None) -> None:
        self.pairs, self.shape = pairs, shape
        self.weights = weights  # None: every edge counts 1

    def __repr__(self) -> str:
        return f"Edges({len(self.pairs):,} of {self.shape[0]:,} x {self.shape[1]:,})"

    @cached_property
    def pattern(self) -> Pattern:
        """Where the edges stand."""
        return Pattern.of(self.pairs, self.shape)

    @cached_property
    def plain(self) -> Matrix:
        """A: the sum of the neighbours."""
        return Matrix(self.pattern, torch.ones(len(self.pairs)) if self.weights is None else self.weights)

    @cached_property
    def left_degrees(self) -> Tensor:
        """How many edges each left node has."""
        return self.plain.row_sums()

    @cached_property
    def right_degrees(self) -> Tensor:
        """How many edges each right node has."""
        return self.plain.T.row_sums()

    @cached_property
    def mean(self) -> Matrix:
        """D_left^-1 A: the mean of the neighbours."""
        return self.plain.scaled(left=power(self.left_degrees, -1))

    @cached_property
    def back_mean(self) -> Matrix:
        """D_right^-1 A': for right nodes, the mean of their left neighbours."""
        return self.plain.T.scaled(left=power(self.right_degrees, -1))

    @cached_property
    def symmetric(self) -> Matrix:
        """D_left^-1/2 A D_right^-1/2."""
        return self.plain.scaled(power(self.left_degrees, -0.5), power(self.right_degrees, -0.5))

    @property
    def back_symmetric(self) -> Matrix:
        """The same towards the right nodes."""
        return self.symmetric.T

    def without(self, left: Tensor, right: Tensor) -> "Edges":
        """The edges with these pairs at weight 0; a pair that is no edge changes nothing."""
        codes = encode(self.pairs, self.shape[1])
        wanted = left.cpu().numpy() * self.shape[1] + right.cpu().numpy()
        at = np.searchsorted(codes, wanted[contains(codes, wanted)])
        weights = torch.ones(len(self.pairs)) if self.weights is None else self.weights.clone()
        weights[torch.from_numpy(at)] = 0.0
        return self.reweighted(weights)

    def reweighted(self, weights: Tensor) -> "Edges":
        """The same edges, each with a weight; the pattern is shared."""
        again = Edges(self.pairs, self.shape, weights)
        again.__dict__["pattern"] = self.pattern
        return again


class BundleGraph:
    """The user-bundle-item graph. It is an argument of a model, never a part of it, and never changes."""

    def __init__(self, ub: Edges, ui: Edges, bi: Edges) -> None:
        self.ub, self.ui, self.bi = ub, ui, bi
        self.users, self.bundles = ub.shape
        self.items = ui.shape[1]
        self._kept: dict[str, tuple[Operator, tuple[Relation, ...]]] = {}

    @classmethod
    def of(cls, dataset: BundleDataset) -> Self:
        """The factual graph: training pairs, user-item and bundle-item."""
        users, bundles, items = len(dataset.users), len(dataset.bundles), len(dataset.items)
        ub, ui = Edges(dataset.train, (users, bundles)), Edges(dataset.ui, (users, items))
        return cls(ub, ui, Edges(dataset.bi, (bundles, items)))

    def __repr__(self) -> str:
        return f"BundleGraph(ub {self.ub}, ui {self.ui}, bi {self.bi})"

    def edges(self, relation: Relation) -> Edges:
        """The edges of a relation by its name."""
        return {"ub": self.ub, "ui": self.ui, "bi": self.bi}[relation]

    def edit(self, edits: EdgeEdits) -> "BundleGraph":
        """The graph after the edits; relations that are not touched are shared, with all that was made of them."""
        changed = {}
        for relation in ("ub", "ui", "bi"):
            edges = self.edges(relation)
            if edits.touches(relation):
                edges = Edges(edits.apply_to(relation, edges.pairs, edges.shape), edges.shape)
            changed[relation] = edges
        return self.replaced(**changed)

    def replaced(self, **edges: Edges) -> "BundleGraph":
        """The graph with some of its relations exchanged; what was made of the others stays."""
        other = BundleGraph(**({"ub": self.ub, "ui": self.ui, "bi": self.bi} | edges))
        for name, (operator, relations) in self._kept.items():
            if all(other.edges(relation) is self.edges(relation) for relation in relations):
                other._kept[name] = (operator, relations)
        return other

    def keep(self, name: str, make: Callable[["BundleGraph"], Made], *relations: Relation) -> Made:
        """An operator that a model makes of these relations: made once for this graph."""
        if name not in self._kept:
            self._kept[name] = (make(self), relations)
        return cast(Made, self._kept[name][0])


def power(degrees: Tensor, exponent: float) -> Tensor:
    """degrees ** exponent, with 0 for nodes without an edge."""
    return torch.where(degrees > 0, degrees.clamp(min=1e-12) ** exponent, torch.zeros(()))
