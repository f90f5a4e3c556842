import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from clbr import World, save
from clbr.config import Config
from clbr.data.pairs import Relation
from clbr.errors import InputError
from clbr.graph.graph import BundleGraph
from clbr.models.base import COMMON_SPACE, Encoder, ModelConfig
from clbr.models.bprmf import BPRMF
from clbr.models.embeddings import Embeddings, Level
from clbr.models.registry import MODELS, build_model, find_model, make_model, register
from clbr.rng import torch_generator
from conftest import make_dataset


class Mean(Encoder):
    """A user is the mean of the user's bundles."""

    config_class = ModelConfig
    relations: ClassVar[tuple[Relation, ...]] = ("ub",)

    def __init__(self, config: ModelConfig, users: int, bundles: int, items: int) -> None:
        super().__init__(config)
        self.bundles = nn.Parameter(torch.empty(bundles, config.dim))

    def encode(self, graph: BundleGraph, generator: torch.Generator | None = None) -> Embeddings:
        return Embeddings({"only": Level(graph.ub.mean @ self.bundles, self.bundles)})


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = dict(MODELS)
    yield
    MODELS.clear()
    MODELS.update(before)


def test_the_registry_holds_baselines_and_models_in_their_order() -> None:
    baselines = ["popularity", "overlap", "neighbours", "ease"]
    trained = ["bprmf", "lightgcn", "dam", "rgcn", "bundlenet", "bgcn", "crosscbr", "bundlegt", "multicbr", "trilevel"]
    assert list(MODELS) == baselines + trained


def test_a_registered_model_is_built_by_its_name_and_has_defaults_for_citation_and_search_space() -> None:
    register("mean-2", Mean)
    register("mean-2", Mean)  # the same class again changes nothing
    model = make_model("mean-2", {"dim": 8}, make_dataset(), torch_generator(0, "init"))
    assert isinstance(model, Mean)
    assert model.bundles.shape == (4, 8)
    assert find_model("mean-2").search_space == COMMON_SPACE
    assert find_model("mean-2").citation == ""


@pytest.mark.parametrize("name", ["", "Mean", "my model", "-mean", "mëan", "a/b", 3])
def test_a_name_is_lower_case_letters_digits_and_dashes(name: str) -> None:
    with pytest.raises(InputError, match="expected lower case letters, digits, - or _"):
        register(name, Mean)


def test_a_taken_name_is_rejected() -> None:
    with pytest.raises(InputError, match="the model name 'bprmf' is taken by BPRMF; choose another name"):
        register("bprmf", Mean)
    assert MODELS["bprmf"] is BPRMF


@pytest.mark.parametrize("model", [Mean(ModelConfig(dim=1), 1, 1, 1), ModelConfig, nn.Linear, "mean"])
def test_only_a_subclass_of_model_can_be_registered(model: object) -> None:
    with pytest.raises(InputError, match=r"model 'mean': expected a subclass of clbr\.models\.base\.Model, found"):
        register("mean", model)  # type: ignore[arg-type]


def test_a_model_needs_a_config_class_with_the_common_settings() -> None:
    class Without(Encoder):
        relations = ("ub",)

    class Plain(Mean):
        config_class = Config  # type: ignore[assignment]

    with pytest.raises(InputError, match=r"expected Without\.config_class to be ModelConfig or a subclass of it"):
        register("mean", Without)
    with pytest.raises(InputError, match=r"expected Plain\.config_class to be ModelConfig or a subclass of it"):
        register("mean", Plain)
    assert "mean" not in MODELS


@pytest.mark.parametrize("relations", [None, "ub", ("ub", "users"), ["ub"]])
def test_a_model_names_the_relations_that_it_reads(relations: object) -> None:
    wrong = type("Wrong", (Mean,), {"relations": relations})
    with pytest.raises(InputError, match=r"Wrong\.relations .* a tuple of 'ub', 'ui', 'bi', found"):
        register("mean", wrong)


def test_an_unknown_model_or_setting_is_rejected_with_a_hint() -> None:
    with pytest.raises(InputError, match="unknown model 'lightgnc', did you mean 'lightgcn'"):
        find_model("lightgnc")
    with pytest.raises(InputError, match="settings of lightgcn: unknown key 'layer', did you mean 'layers'"):
        build_model("lightgcn", {"layer": 2}, 1, 1, 1)


@pytest.mark.parametrize(("model", "empty"), [("bgcn", "ui"), ("dam", "bi"), ("dam", "ui")])
def test_a_model_without_the_pairs_that_it_needs_is_rejected(model: str, empty: str) -> None:
    what = {"ui": "user-item", "bi": "bundle-item"}[empty]
    with pytest.raises(InputError, match=f"small has no {what} pairs, which {model} needs; choose another model"):
        make_model(model, {}, make_dataset(**{empty: np.empty((0, 2), np.int32)}))


def test_models_of_ones_own_are_known_to_the_command_line(tmp_path: Path, tiny: World) -> None:
    """CLBR_MODELS names the module that registers them."""
    save(tiny.dataset, tmp_path / "shop")
    (tmp_path / "my_models.py").write_text(
        "import clbr\nfrom clbr.models.bprmf import BPRMF\n\n\nclass Mine(BPRMF):\n    pass\n\n\n"
        'clbr.register("mine", Mine)\n'
    )
    script = "from clbr.cli import main; main()"
    environment = os.environ | {"CLBR_MODELS": "my_models", "PYTHONPATH": str(tmp_path)}
    for words in (
        ["train", "shop", "--model", "mine", "--epochs", "1", "--out", "run"],
        ["export", "run", "--out", "artifact"],
        ["recommend", "artifact", "--user", "3"],
    ):
        command = [sys.executable, "-c", script, *words]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    environment["CLBR_MODELS"] = "no_such_module"
    command = [sys.executable, "-c", script, "train", "shop", "--model", "mine", "--out", "other"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "CLBR_MODELS: cannot import 'no_such_module'" in done.stderr
