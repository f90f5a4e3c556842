import pytest
import torch

from clbr import World
from clbr.counterfactual.diagnostics import measure
from clbr.graph.graph import BundleGraph
from clbr.models.base import Encoder, ModelConfig
from clbr.models.embeddings import Embeddings, Level
from clbr.rng import torch_generator


class Rotated(Encoder):
    """Two users and two bundles. On a view (its second graph) the second of each is rotated by a right angle."""

    config_class, relations = ModelConfig, ("ub",)

    def __init__(self) -> None:
        super().__init__(ModelConfig())
        self.calls = 0

    def encode(self, graph: BundleGraph, generator: torch.Generator | None = None) -> Embeddings:
        self.calls += 1
        second = [1.0, 0.0] if self.calls == 1 else [0.0, 1.0]
        rows = torch.tensor([[1.0, 0.0], second])
        return Embeddings({"only": Level(rows, rows)})


def measured(tiny: World, temperature: float, distance: str) -> dict[str, float]:
    graph = BundleGraph.of(tiny.dataset)
    return measure(Rotated(), graph, [graph], temperature, distance, torch_generator(0, "nodes"))


def test_alignment_and_uniformity_equal_the_values_computed_by_hand(tiny: World) -> None:
    """Cosines of factual and view vectors: 1 and 0 for the same node, 0 and 1 for the other node."""
    e = torch.e
    found = measured(tiny, 1.0, "exponential")
    assert found["alignment users"] == pytest.approx(-(e + 1) / 2)
    assert found["uniformity users"] == pytest.approx((e + 1) / 2)
    found = measured(tiny, 1.0, "cosine")
    assert found["alignment bundles"] == pytest.approx((0 + 1) / 2)
    assert found["uniformity bundles"] == pytest.approx(-(1 + 0) / 2)


def test_measures_that_are_not_finite_are_left_out(tiny: World) -> None:
    entropies = {f"{kind}entropy {side}" for kind in ("", "conditional ") for side in ("users", "bundles")}
    assert set(measured(tiny, 0.001, "exponential")) == entropies
    assert len(measured(tiny, 0.001, "cosine")) == 8
