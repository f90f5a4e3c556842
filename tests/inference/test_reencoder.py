"""Encoding edits by their changed rows: the same vectors as a full encoding, for every model with vectors."""

import numpy as np
import pytest
import torch

from clbr import EdgeEdits, World
from clbr.data.pairs import neighbours
from clbr.graph.graph import BundleGraph
from clbr.inference.artifact import make_graph
from clbr.inference.changed_rows import ChangedRows, Known, dense
from clbr.inference.cold_start import fill_cold_start
from clbr.inference.own_vectors import move_own_vectors, moved_users
from clbr.inference.reencoder import EditedEdges, Reencoder
from clbr.models.base import Encoder
from clbr.models.registry import MODELS, build_model

ENCODERS = [name for name, model in MODELS.items() if issubclass(model, Encoder)]
USER, BUNDLE = 17, 3


@pytest.fixture(scope="module")
def graph(tiny: World) -> BundleGraph:
    dataset = tiny.dataset
    pairs = {"ub": dataset.train, "ui": dataset.ui, "bi": dataset.bi}
    return make_graph(pairs, len(dataset.users), len(dataset.bundles), len(dataset.items))  # type: ignore[arg-type]


def examples(graph: BundleGraph) -> list[EdgeEdits]:
    """Edits of a user's items, bundles and both, of a whole history, of contents, and of an unseen user."""
    new = {
        relation: np.setdiff1d(
            np.arange(graph.edges(relation).shape[1] - 1), neighbours(graph.edges(relation).pairs, left)
        )
        for relation, left in (("ui", USER), ("ub", USER), ("bi", BUNDLE))
    }
    own = {
        relation: graph.edges(relation).pairs[graph.edges(relation).pairs[:, 0] == left]
        for relation, left in (("ui", USER), ("ub", USER), ("bi", BUNDLE))
    }

    def pairs(relation: str, left: int, count: int) -> np.ndarray:
        return np.array([(left, node) for node in new[relation][::-7][:count]], np.int32)

    return [
        EdgeEdits(add={"ui": pairs("ui", USER, 1)}),
        EdgeEdits(add={"ub": pairs("ub", USER, 2)}, drop={"ui": own["ui"][:1]}),
        EdgeEdits(add={"ub": pairs("ub", USER, 5), "ui": pairs("ui", USER, 12)}),
        EdgeEdits(drop={"ui": own["ui"]}),
        EdgeEdits(drop={"ub": own["ub"][:1]}),
        EdgeEdits(drop={"ub": own["ub"], "ui": own["ui"][:3]}),
        EdgeEdits(add={"bi": pairs("bi", BUNDLE, 2)}, drop={"bi": own["bi"][:2]}),
        EdgeEdits(add={"ui": pairs("ui", graph.users - 1, 3)}),
    ]


@pytest.mark.parametrize(
    ("name", "settings"),
    [*((name, {}) for name in ENCODERS), *(("trilevel", {"user_vectors": which}) for which in ("choosers", "none"))],
)
def test_edits_give_the_vectors_and_scores_of_a_full_encoding(
    graph: BundleGraph, name: str, settings: dict[str, str]
) -> None:
    model = build_model(name, {"dim": 8} | settings, graph.users, graph.bundles, graph.items)
    model.initialise(torch.Generator().manual_seed(0))
    torch.nn.init.normal_(next(model.parameters()), generator=torch.Generator().manual_seed(1))  # some begin at 0
    assert isinstance(model.requires_grad_(False).eval(), Encoder)
    encoder = Reencoder(model, graph)  # type: ignore[arg-type]
    before = {key: value.clone() for key, value in model.state_dict().items()}
    unedited = fill_cold_start(type(model), model.encode(graph), graph)  # type: ignore[arg-type, operator]
    for edits in examples(graph):
        edited = edits.apply(graph)
        full, (_, quick) = model.encode(edited), encoder.encode(edits)  # type: ignore[operator]
        filled = fill_cold_start(type(model), full, edited)  # type: ignore[arg-type]
        moved = moved_users(model, edits, graph, edited)  # type: ignore[arg-type]
        filled = move_own_vectors(model, moved, (graph, unedited), (edited, filled))  # type: ignore[arg-type]
        for user in (USER, 4, graph.users - 1):
            expected = filled.joined("bundles") @ filled.joined("users")[user]
            assert torch.equal(encoder.user_scores(edits, user)[1], expected)
        for level, vectors in full.levels.items():
            for kind in ("users", "bundles", "items"):
                one, other = vectors.side(kind), quick.levels[level].side(kind)
                other = other.dense() if isinstance(other, ChangedRows) else other
                assert (one is None and other is None) or torch.equal(one, other)  # type: ignore[arg-type]
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


@pytest.mark.parametrize(
    ("name", "settings"),
    [("lightgcn", {}), ("crosscbr", {}), ("trilevel", {}), ("trilevel", {"user_vectors": "choosers"})],
)
def test_only_changed_rows_are_computed(graph: BundleGraph, name: str, settings: dict[str, str]) -> None:
    model = build_model(name, {"dim": 8, "layers": 1} | settings, graph.users, graph.bundles, graph.items)
    model.initialise(torch.Generator().manual_seed(0))
    encoder = Reencoder(model.requires_grad_(False), graph)  # type: ignore[arg-type]
    edits = EdgeEdits(add={"ub": examples(graph)[1].add["ub"]})
    _, embeddings = encoder.encode(edits)
    users = embeddings.levels["bundle"].users
    assert isinstance(users, ChangedRows)
    choosers = [graph.ub.pairs[graph.ub.pairs[:, 1] == bundle, 0] for bundle in edits.add["ub"][:, 1]]
    assert users.at.tolist() == sorted({USER, *np.concatenate(choosers).tolist()})


@pytest.mark.parametrize("matrix", ["mean", "back_mean", "symmetric", "back_symmetric"])
def test_the_transpose_of_an_edited_matrix_is_that_of_the_edited_graph(graph: BundleGraph, matrix: str) -> None:
    edits = examples(graph)[2]
    edges = EditedEdges(Known([]), graph.ui, "ui", edits)
    x = torch.randn(getattr(graph.ui, matrix).shape[0], 3, generator=torch.Generator().manual_seed(0))
    expected = getattr(edits.apply(graph).ui, matrix).T @ x
    torch.testing.assert_close(dense(getattr(edges, matrix).T @ x), expected)
    assert not torch.equal(expected, getattr(graph.ui, matrix).T @ x)
