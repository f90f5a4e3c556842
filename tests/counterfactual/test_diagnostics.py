import pytest
import torch

from clbr import World
from clbr.counterfactual.diagnostics import measure
from clbr.graph.graph import BundleGraph
from clbr.models.base import Embeddings, Encoder, Level, ModelConfig
from clbr.rng import torch_generator


class Turned(Encoder):
    """Two users and two bundles; on a view (the second graph it sees) the second of each is turned by a right angle."""

    settings, citation, relations = ModelConfig, "", ("ub",)

    def __init__(self) -> None:
        super().__init__(ModelConfig())
        self.seen = 0

    def encode(self, graph: BundleGraph, generator: torch.Generator | None = None) -> Embeddings:
        self.seen += 1
        second = [1.0, 0.0] if self.seen == 1 else [0.0, 1.0]
        rows = torch.tensor([[1.0, 0.0], second])
        return Embeddings({"only": Level(rows, rows)})


def measured(tiny: World, temperature: float, distance: str) -> dict[str, float]:
    graph = BundleGraph.of(tiny.dataset)
    return measure(Turned(), graph, [graph], temperature, distance, torch_generator(0, "nodes"))


def test_alignment_and_uniformity_by_hand_for_either_distance(tiny: World) -> None:
    """Cosines of fact and view: own 1 and 0, others 0 and 1."""
    e = torch.e
    found = measured(tiny, 1.0, "exponential")
    assert found["alignment users"] == pytest.approx(-(e + 1) / 2)
    assert found["uniformity users"] == pytest.approx((e + 1) / 2)
    found = measured(tiny, 1.0, "cosine")
    assert found["alignment bundles"] == pytest.approx((0 + 1) / 2)
    assert found["uniformity bundles"] == pytest.approx(-(1 + 0) / 2)


def test_what_is_not_finite_is_left_out(tiny: World) -> None:
    entropies = {f"{kind}entropy {side}" for kind in ("", "conditional ") for side in ("users", "bundles")}
    assert set(measured(tiny, 0.001, "exponential")) == entropies
    assert len(measured(tiny, 0.001, "cosine")) == 8
