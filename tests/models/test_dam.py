import pytest
import torch

from clbr.graph.graph import BundleGraph
from clbr.models.dam import DAM
from clbr.models.registry import make_model
from clbr.rng import torch_generator
from conftest import make_dataset


@pytest.mark.parametrize("attention", [-200.0, 0.0, 200.0])
def test_items_with_equal_attention_have_equal_weight_also_at_extreme_values(attention: float) -> None:
    """Bundle 3 holds items 3 and 4: its vector is their mean plus its own vector."""
    dataset = make_dataset()
    graph, model = BundleGraph.of(dataset), make_model("dam", {}, dataset, torch_generator(0, "init"))
    assert isinstance(model, DAM)
    with torch.no_grad():
        model.users.fill_(1.0)
        model.attention.fill_(attention / 64)
        (vector,) = model._attend(graph, torch.tensor([0]), torch.tensor([3]))
        expected = (model.items[3] + model.items[4]) / 2 + model.bundles[3]
        torch.testing.assert_close(vector, expected)
        score = model._score(model.users[:1], expected[None], model.bundle_head, None)
    torch.testing.assert_close(model.scorer(graph).scores(torch.tensor([0]))[0, 3], score[0])
