"""Dropout of edges, from a given generator."""

import torch
from torch import Tensor

from clbr.graph.bundle_graph import Edges, power
from clbr.graph.operators import Matrix


class DirectedEdges(Edges):
    """Edges whose two directions have weights of their own."""

    def __init__(self, edges: Edges, there: Tensor, back: Tensor) -> None:
        super().__init__(edges.pairs, edges.shape, there)
        self.__dict__["pattern"] = edges.pattern
        pattern, _ = edges.pattern.transposed
        self.back = Matrix(pattern, back)

    @property
    def back_symmetric(self) -> Matrix:
        """Normalised by what this direction kept."""
        if "back_symmetric" not in self.__dict__:
            left, right = power(self.back.row_sums(), -0.5), power(self.back.T.row_sums(), -0.5)
            self.__dict__["back_symmetric"] = self.back.scaled(left, right)
        return self.__dict__["back_symmetric"]  # type: ignore[no-any-return]


def directed_edge_dropout(edges: Edges, rate: float, generator: torch.Generator) -> Edges:
    """The edges, each direction struck on its own with probability `rate`, and normalised by what is left."""
    if not rate:
        return edges
    there, back = (torch.rand(2, len(edges.pairs), generator=generator) >= rate).float()
    return DirectedEdges(edges, there, back)
