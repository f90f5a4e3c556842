"""Settings of a run: defaults, presets and changes, and which preset is used."""

import tomllib
from dataclasses import fields
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from clbr import BundleDataset, InputError, World
from clbr.cli.options import parse_changes
from clbr.counterfactual.strategy import STRATEGIES
from clbr.models.base import ClosedForm
from clbr.models.registry import MODELS, make_model
from clbr.models.trilevel import TriLevel
from clbr.training.config import (
    PAPER_CONSTRAINT,
    RunConfig,
    compose,
    default_batch_size,
    defaults_by_data,
    preset_notes,
)

SHIPPED = sorted(path.name.removesuffix(".toml") for path in files("clbr.presets").iterdir() if ".toml" in path.name)
TRAINED = [name for name, model in MODELS.items() if not issubclass(model, ClosedForm)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lr": 0.1}, "unknown setting 'lr' of crosscbr"),
        ({"learning_rat": 0.1}, r"unknown setting 'learning_rat' of crosscbr, did you mean 'learning_rate'\?"),
        ({"learning_rate": -1.0}, "learning_rate = -1.0"),
        ({"layers": 0}, "layers = 0"),
        ({"metric": "accuracy"}, "metric"),
        ({"augmentation": "some"}, "augmentation"),
        ({"hard_history": 0.7, "hard_contents": 0.7}, "their sum must be at most 1"),
    ],
)
def test_an_unknown_setting_or_a_value_out_of_range_raises(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        compose("shop", "crosscbr", changes=changes)


def test_unknown_models_and_presets_raise(tiny: World) -> None:
    with pytest.raises(InputError, match=r"unknown model 'bgnc', did you mean 'bgcn'\?"):
        compose("shop", "bgnc")
    with pytest.raises(InputError, match=r"no preset 'youshou' for bgcn, did you mean 'youshu'\?"):
        compose("shop", "bgcn", preset="youshou")


def test_models_that_need_items_raise_without_them(tiny: World) -> None:
    parts = {field.name: getattr(tiny.dataset, field.name) for field in fields(tiny.dataset) if field.init}
    without_items = BundleDataset(**parts | {"ui": tiny.dataset.ui[:0]})
    for model in ("crosscbr", "dam"):
        with pytest.raises(InputError, match=f"tiny has no user-item pairs, which {model} needs"):
            make_model(model, {}, without_items)
    make_model("dam", {"item_task": 0.0}, without_items)


@pytest.mark.parametrize(
    ("paradigm", "changes", "message"),
    [
        ("clbr", {"ratio_ub": 1.0}, "ratio_ub = 1.0"),
        ("clbr", {"ratio_ui": -0.1}, "ratio_ui = -0.1"),
        ("clbr", {"tau": 0.0}, "tau = 0.0"),
        ("clbr", {"omega": 1.0}, r"unknown setting 'omega' of crosscbr, did you mean 'omega_[ub]'\?"),
        ("clbr", {"constraint": "none", "view_weight": 0.0}, "the views are not used"),
        ("clbr", {"omega_u": 0.0, "omega_b": 0.0, "view_weight": 0.0}, "the views are not used"),
        ("casr", {"ratio_bi": 0.1}, "casr edits user-bundle pairs only"),
        ("casr", {"constraint": "adaptive"}, "casr has its own sampler and no constraint; for others choose"),
        ("casr", {"sampler": "stochastic"}, "casr has its own sampler and no constraint; for others choose"),
        ("clbr", {"distance": "manhattan"}, "distance = 'manhattan'"),
        ("original", {"omega_u": 1.0}, "'omega_u' is a setting of counterfactual views.*; choose the paradigm clbr"),
        ("clrb", {}, r"unknown paradigm 'clrb', did you mean 'clbr'\?"),
    ],
)
def test_settings_of_views_that_make_no_sense_raise(paradigm: str, changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        compose("shop", "crosscbr", changes=changes, paradigm=paradigm)


@pytest.mark.parametrize("model", ["bprmf", "dam", "ease", "popularity"])
def test_a_model_without_embeddings_of_a_graph_cannot_have_views(model: str) -> None:
    message = f"{model} computes no embeddings from a graph, and clbr needs a model that does"
    with pytest.raises(InputError, match=message) as caught:
        compose("shop", model, paradigm="clbr")
    assert caught.value.arguments == ("model", "paradigm")


@pytest.mark.parametrize("paradigm", STRATEGIES)
def test_settings_survive_their_file(paradigm: str, tmp_path: Path) -> None:
    changes = {} if paradigm == "original" else {"ratio_ub": 0.02, "view_weight": 0.3}
    config = compose("shop", "crosscbr", changes=changes, paradigm=paradigm)
    (tmp_path / "config.toml").write_text(config.to_toml())
    assert RunConfig.from_toml(tmp_path / "config.toml") == config


@pytest.mark.parametrize(("old", "new"), [('"clbr"', '"original"'), ('"clbr"', '"clrb"')])
def test_a_file_whose_views_and_paradigm_disagree_raises(old: str, new: str, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(compose("shop", "bgcn", paradigm="clbr").to_toml().replace(old, new))
    with pytest.raises(InputError, match=r"the paradigm original has no views|unknown paradigm 'clrb'"):
        RunConfig.from_toml(tmp_path / "config.toml")


@pytest.mark.parametrize(
    ("pairs", "size"),
    [
        (1, 256),
        (2_915, 256),
        (8_191, 256),
        (8_192, 512),
        (11_666, 512),
        (32_768, 2048),
        (217_864, 8192),
        (10**9, 1 << 25),
    ],
)
def test_the_default_batch_size_gives_sixteen_to_thirty_one_steps_an_epoch(pairs: int, size: int) -> None:
    assert default_batch_size(pairs) == size


def test_large_data_have_less_weight_decay_and_dropout_for_trilevel() -> None:
    assert TriLevel.defaults_for(34_416) == {}
    assert TriLevel.defaults_for(70_000) == {"weight_decay": 0.00015, "edge_dropout": 0.4}
    by_data = {"batch_size": 8192} | TriLevel.defaults_for(350_000)
    run = compose("x", "trilevel", by_data=by_data)
    assert run.train.weight_decay == pytest.approx(3e-5) and run.settings["edge_dropout"] == 0.2
    run = compose("x", "trilevel", by_data=by_data, changes={"edge_dropout": 0.3, "weight_decay": 0.1})
    assert run.train.weight_decay == 0.1 and run.settings["edge_dropout"] == 0.3


def test_a_batch_is_as_the_data_say_and_with_a_shipped_preset_never_smaller_than_its_default(
    tiny: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    by_data = defaults_by_data("crosscbr", tiny.dataset)
    assert by_data == {"batch_size": 256, "calibrate_cold": False} and defaults_by_data("ease", tiny.dataset) == {}
    assert compose("x", "crosscbr", by_data=by_data).train.batch_size == 256
    assert compose("x", "crosscbr", by_data=by_data, changes={"batch_size": 7}).train.batch_size == 7
    assert compose("x", "crosscbr", by_data=by_data, preset="youshu").train.batch_size == 2048
    assert compose("x", "trilevel", by_data=by_data, preset="wide").train.batch_size == 256  # not for one data set
    large = {"batch_size": 8192}
    assert compose("x", "crosscbr", by_data=large, preset="netease").train.batch_size == 8192
    assert compose("x", "bgcn", by_data=large, preset="netease").train.batch_size == 2048  # stated in the preset
    assert compose("x", "crosscbr").train.batch_size == 2048
    Path("mine.toml").write_text("[train]\nlearning_rate = 0.002\n")
    assert compose("x", "crosscbr", by_data=by_data, preset="mine.toml").train.batch_size == 256
    Path("mine.toml").write_text("[train]\nbatch_size = 99\n")
    assert compose("x", "crosscbr", by_data=by_data, preset="mine.toml").train.batch_size == 99


def test_a_preset_file_and_changes_compose_in_order(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("[settings]\nlayers = 3\n[train]\nlearning_rate = 0.5\nepochs = 7\n")
    changes = parse_changes(["learning_rate=0.25", "augmentation=none"])
    config = compose("shop", "crosscbr", preset=str(tmp_path / "mine.toml"), changes=changes)
    assert (config.settings["layers"], config.settings["augmentation"]) == (3, "none")
    assert (config.train.learning_rate, config.train.epochs) == (0.25, 7)
    assert config.settings["temperature"] == 0.25


def test_the_views_part_of_a_preset_file_may_change_other_settings(tmp_path: Path) -> None:
    preset = str(tmp_path / "own.toml")
    Path(preset).write_text(
        "[settings]\nlayers = 3\n[train]\nlearning_rate = 0.003\n"
        "[views]\nlearning_rate = 0.002\nlayers = 1\nomega_u = 0.5\n"
    )
    original, clbr, casr = (compose("shop", "bgcn", preset=preset, paradigm=name) for name in STRATEGIES)
    assert (original.train.learning_rate, original.settings["layers"]) == (0.003, 3)
    assert (clbr.train.learning_rate, clbr.settings["layers"]) == (0.002, 1)
    assert clbr.views is not None and clbr.views.omega_u == 0.5
    assert casr.train.learning_rate == 0.003
    changed = compose("shop", "bgcn", preset=preset, paradigm="clbr", changes={"learning_rate": 0.01})
    assert changed.train.learning_rate == 0.01
    Path(preset).write_text("[views]\nomega = 0.1\n")
    with pytest.raises(InputError, match="unknown setting 'omega' of bgcn, did you mean 'omega_[ub]'"):
        compose("shop", "bgcn", preset=preset, paradigm="clbr")


def test_the_views_of_a_preset_file_are_used_only_for_their_paradigm(tmp_path: Path) -> None:
    casr, clbr = (str(tmp_path / name) for name in ("casr.toml", "clbr.toml"))
    Path(casr).write_text('[views]\nsampler = "casr"\nratio_ub = 0.03\n')
    Path(clbr).write_text("[views]\nratio_ub = 0.07\n")
    for preset, paradigm, ratio in ((casr, "casr", 0.03), (clbr, "clbr", 0.07), (clbr, "casr", 0.1)):
        views = compose("shop", "bgcn", preset=preset, paradigm=paradigm).views
        assert views is not None and views.ratio_ub == ratio
    assert compose("shop", "bgcn", preset=casr).views is None
    message = r"casr.toml: its views are those of casr; choose the paradigm casr, or remove its \[views\]"
    with pytest.raises(InputError, match=message):
        compose("shop", "bgcn", preset=casr, paradigm="clbr")
    mixed = {"sampler": "casr", "ratio_ui": 0.0, "ratio_bi": 0.0}
    views = compose("shop", "bgcn", changes=mixed, paradigm="clbr").views
    assert views is not None and (views.sampler, views.constraint) == ("casr", "adaptive")


@pytest.mark.parametrize("preset", ["youshu", "netease"])
@pytest.mark.parametrize("model", TRAINED)
def test_every_trained_model_has_a_preset_for_both_data_sets_of_the_paper(model: str, preset: str) -> None:
    assert f"{model}-{preset}" in SHIPPED


@pytest.mark.parametrize("shipped", SHIPPED)
def test_a_shipped_preset_is_named_after_model_data_paradigm_and_any_constraint_but_the_papers(shipped: str) -> None:
    model, data, *rest = shipped.split("-")
    content = tomllib.loads((files("clbr.presets") / f"{shipped}.toml").read_text())
    constraint = content.get("views", {}).get("constraint", PAPER_CONSTRAINT)
    if rest:
        assert rest[0] in STRATEGIES and rest[0] != "original"
        assert rest[1:] == ([] if constraint == PAPER_CONSTRAINT else [constraint])
        assert f"{model}-{data}" in SHIPPED
        config = compose("shop", model, preset=shipped.removeprefix(f"{model}-"), paradigm=rest[0])
        assert config == compose("shop", model, preset=data, paradigm=rest[0])
        assert config.views is not None and config.views.constraint == constraint
        parts = config.settings | config.train.model_dump() | config.views.model_dump()
    else:
        assert "views" not in content
        config = compose("shop", model, preset=data)
        parts = config.settings | config.train.model_dump()
    given = {key: value for part in content.values() for key, value in part.items()}
    assert given and given.items() <= parts.items()


def test_a_preset_for_a_paradigm_extends_the_one_of_the_data_set() -> None:
    original, clbr, casr = (compose("shop", "bgcn", preset="youshu", paradigm=name) for name in STRATEGIES)
    assert (original.train.learning_rate, original.settings["l2"]) == (0.003, 1e-7)
    assert (clbr.train.learning_rate, clbr.settings["l2"], clbr.settings["message_dropout"]) == (0.002, 0.0, 0.3)
    assert clbr.views is not None and (clbr.views.constraint, clbr.views.tau) == ("contrastive", 0.2)
    assert (casr.train, casr.settings) == (original.train, original.settings)
    assert casr.views == compose("shop", "bgcn", paradigm="casr").views
    for paradigm in ("original", "casr"):
        with pytest.raises(InputError, match=f"youshu-clbr-contrastive: is not for the paradigm {paradigm}"):
            compose("shop", "bgcn", preset="youshu-clbr-contrastive", paradigm=paradigm)


@pytest.mark.parametrize(
    ("data_name", "preset"),
    [
        ("Youshu", "youshu"),
        ("youshu-like-x0.25", "youshu"),
        ("NetEase", "netease"),
        ("NetEasePartial", "netease"),
        ("tiny", "none"),
        ("", "none"),
        ("youshu-clbr", "none"),
    ],
)
@pytest.mark.parametrize("paradigm", ["original", "clbr"])
def test_without_a_named_preset_the_one_that_fits_the_data_is_used(data_name: str, preset: str, paradigm: str) -> None:
    chosen = compose("shop", "crosscbr", data_name=data_name, paradigm=paradigm)
    assert chosen == compose("shop", "crosscbr", preset=preset, paradigm=paradigm)
    defaults = compose("shop", "crosscbr", preset="none", data_name=data_name, paradigm=paradigm)
    assert defaults == compose("shop", "crosscbr", paradigm=paradigm)


def test_notes_name_the_preset_and_what_is_not_the_papers_method(tmp_path: Path) -> None:
    constraint = "preset youshu-clbr-contrastive: its constraint is 'contrastive', not the paper's 'adaptive'"
    beyond = "preset youshu-clbr-contrastive: it sets redraw, warm_up, which the paper's method does not have"
    automatic = ", chosen by the name of the data set, Youshu"
    assert preset_notes("bgcn", None, "Youshu") == [f"preset youshu{automatic}"]
    assert preset_notes("bgcn", None, "Youshu", "casr") == [f"preset youshu{automatic}"]
    assert preset_notes("bgcn", None, "Youshu", "clbr") == [
        f"preset youshu-clbr-contrastive{automatic}",
        constraint,
        beyond,
    ]
    assert preset_notes("bgcn", "youshu", "tiny", "clbr") == ["preset youshu-clbr-contrastive", constraint, beyond]
    assert preset_notes("crosscbr", "youshu", "tiny", "clbr") == ["preset youshu-clbr"]
    assert preset_notes("bgcn", "none", "Youshu", "clbr") == []
    assert preset_notes("bgcn", None, "tiny", "clbr") == []
    own = str(tmp_path / "best.toml")
    Path(own).write_text('[views]\nconstraint = "constant"\n')
    assert preset_notes("bgcn", own, "Youshu", "clbr") == [
        f"preset {own}",
        f"preset {own}: its constraint is 'constant', not the paper's 'adaptive'",
    ]
    assert preset_notes("bgcn", own, "Youshu") == [f"preset {own}"]


def test_the_learning_rate_grows_with_the_fourth_root_of_a_batch_that_grew_with_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    large = {"batch_size": 32_768}  # 16 times the default

    def rate(**options: Any) -> float:
        return compose("x", "crosscbr", **({"by_data": large} | options)).train.learning_rate

    assert rate() == rate(preset="youshu") == 0.002
    assert rate(by_data={"batch_size": 8192}) == 0.00141
    assert rate(by_data={"batch_size": 256}) == rate(by_data=None) == 0.001  # never smaller
    # what somebody chose stays: the rate itself, or the batch
    assert rate(changes={"learning_rate": 0.003}) == 0.003
    assert rate(changes={"batch_size": 8192}) == 0.001
    Path("mine.toml").write_text("[train]\nlearning_rate = 0.005\n")
    assert rate(preset="mine.toml") == 0.005
    assert compose("x", "bgcn", by_data=large, preset="netease").train.learning_rate == 0.0003  # its batch is stated


def test_a_preset_for_any_data_is_not_chosen_by_the_name_of_the_data() -> None:
    assert compose("x", "trilevel", data_name="wide") == compose("x", "trilevel")
    assert compose("x", "trilevel", preset="wide").settings["contrasted_nodes"] == 1000
