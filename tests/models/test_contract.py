"""Every registered model passes the contract of `clbr.testing`, at settings and margins of its own."""

from typing import Any

from clbr.models.base import COMMON_SPACE, ClosedForm
from clbr.models.registry import MODELS
from clbr.testing import ModelContract

# beats_popularity: on the tiny world, after twenty epochs, the factor by which recall@20 on validation must exceed that
# of popularity.
CONTRACTS: dict[str, dict[str, Any]] = {
    "popularity": {"beats_popularity": None, "extreme_settings": [{}]},
    "overlap": {"beats_popularity": 1.2, "extreme_settings": [{"length": 0.0, "history": 0.0}, {"length": 1.0}]},
    "neighbours": {"beats_popularity": 1.5, "extreme_settings": [{"penalty": 0.0}, {"penalty": 1.0, "items": 0.0}]},
    "ease": {"beats_popularity": 1.4, "extreme_settings": [{"l2": 0.1}, {"l2": 1e9}, {"l2": 1.0, "contents": 100.0}]},
    "bprmf": {
        "train_settings": {"learning_rate": 0.02, "weight_decay": 0.001},
        "beats_popularity": 1.2,
        "extreme_settings": [{"dim": 1}],
    },
    "lightgcn": {
        "train_settings": {"learning_rate": 0.02},
        "beats_popularity": 1.3,
        "extreme_settings": [{"dim": 1, "layers": 6}],
    },
    "dam": {
        "settings": {"hidden_dropout": 0.1},
        "train_settings": {"learning_rate": 0.01, "evaluate_every": 20},
        "beats_popularity": 1.1,
        "extreme_settings": [{"dim": 1, "hidden_dropout": 0.9}, {"init": "normal", "dim": 128, "hidden_dropout": 0.5}],
    },
    "rgcn": {
        "settings": {"message_dropout": 0.3},
        "train_settings": {"learning_rate": 0.01, "weight_decay": 0.0001},
        "beats_popularity": 1.1,
        "extreme_settings": [{"layers": 5, "message_dropout": 0.9}, {"bases": 2, "message_dropout": 0.0}],
    },
    "bundlenet": {
        "train_settings": {"learning_rate": 0.01},
        "beats_popularity": 1.2,
        "extreme_settings": [{"layers": 4, "message_dropout": 0.9}, {"item_task": 0.0, "hide_choices": False}],
    },
    "bgcn": {
        "train_settings": {"learning_rate": 0.01},
        "beats_popularity": 1.3,
        "extreme_settings": [{"layers": 4, "message_dropout": 0.9}, {"l2": 1.0}],
    },
    "crosscbr": {
        "train_settings": {"learning_rate": 0.01},
        "beats_popularity": 1.4,
        "extreme_settings": [
            {"temperature": 0.01, "contrastive_weight": 10.0, "layers": 4},
            {"augmentation": "messages", "item_dropout": 0.9},
            {"augmentation": "none"},
            {"bundle_dropout": 0.99, "item_dropout": 0.99, "contents_dropout": 0.99},
            {"objective": "softmax", "dim": 1},
        ],
    },
    "bundlegt": {
        "settings": {"attention_layers": 2, "item_layers": 2},
        "train_settings": {"learning_rate": 0.005, "weight_decay": 0.0001},
        "beats_popularity": 1.3,
        "extreme_settings": [
            {"attention_layers": 4, "item_layers": 0, "bundle_tokens": 1, "user_tokens": 1},
            {"init": "normal", "dim": 128, "bundle_attention": 1.0, "user_attention": 1.0, "learned_attention": True},
            {"objective": "softmax", "dim": 1, "bundle_attention": 0.0},
        ],
    },
    "multicbr": {
        "train_settings": {"learning_rate": 0.01},
        "beats_popularity": 1.4,
        "extreme_settings": [
            {"temperature": 0.01, "contrastive_weight": 10.0, "ub_layers": [0.0, 0.0, 0.0, 0.0, 1.0]},
            {"ub_noise": 100.0, "ui_noise": 100.0, "bi_noise": 100.0},
            {"objective": "softmax", "contrastive_weight": 0.0, "dim": 1},
        ],
    },
    "trilevel": {
        "train_settings": {"learning_rate": 0.005},
        "beats_popularity": 1.4,
        "extreme_settings": [
            {"temperature": 0.01, "contrastive_weight": 10.0},
            {"edge_dropout": 0.99},
            {"objective": "bpr", "contrastive_weight": 0.0, "dim": 1},
        ],
    },
}
BUILT_IN = dict(MODELS)

for _name, _model in BUILT_IN.items():
    _class = f"Test{_model.__name__}"
    globals()[_class] = type(_class, (ModelContract,), {"model": _model, **CONTRACTS.get(_name, {})})


def test_every_built_in_model_has_contract_settings_of_its_own() -> None:
    assert list(CONTRACTS) == list(BUILT_IN)
    for name, contract in CONTRACTS.items():
        assert contract["extreme_settings"], name
        assert contract["beats_popularity"] or name == "popularity", name


def test_every_model_names_its_paper_and_searches_the_common_settings_first() -> None:
    for name, model in BUILT_IN.items():
        if not issubclass(model, ClosedForm):
            assert dict(list(model.search_space.items())[:3]) == COMMON_SPACE, name
        assert model.citation or name == "popularity", name
