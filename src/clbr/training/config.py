"""Settings of a run (model, training, views), the shipped presets, and how both are combined."""

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator

from clbr.config import Config, nearest
from clbr.counterfactual.config import ViewsConfig
from clbr.counterfactual.strategy import Strategy, find_strategy
from clbr.data.dataset import BundleDataset
from clbr.errors import InputError
from clbr.graph.edits import without_effect
from clbr.models.base import ClosedForm, Encoder, Model
from clbr.models.cold import cold_share
from clbr.models.registry import find_model

NO_PRESET, ANY_DATA = "none", ("wide",)
"""The word for no preset, and the shipped presets that are not for one data set."""
PAPER_CONSTRAINT = "adaptive"
STEPS, SMALLEST_BATCH = 16, 256
"""Where the batch size follows from the data, an epoch has about so many steps, and a batch at least so many pairs."""
COLD_SHARE = 0.1
"""Share of the validation pairs from which on a model's defaults are for cold bundles, or for cold users."""
BEYOND_PAPER = ("redraw", "view_positives", "warm_up")
"""Settings of views that change the paper's method where a preset turns them on."""


class TrainConfig(Config):
    """How a model is trained."""

    epochs: int = Field(100, ge=1, description="maximum number of epochs")
    batch_size: int = Field(2048, ge=1, description="positive pairs in a step; by the size of the data if left out")
    validation_users: int = Field(
        4096, ge=1, description="users who are ranked on validation after an epoch; a fixed sample if there are more"
    )
    negatives: int = Field(1, ge=1, description="negative bundles for each positive pair")
    learning_rate: float = Field(
        1e-3, gt=0, description="Adam's learning rate; if it and batch_size are left out, larger for batches above 2048"
    )
    decay: float = Field(1.0, gt=0, le=1, description="factor on learning_rate every decay_every epochs; 1: none")
    decay_every: int = Field(1, ge=1, description="epochs between two decays")
    weight_decay: float = Field(0.0, ge=0, description="L2 on all parameters, as Adam applies it")
    clip: float | None = Field(None, gt=0, description="maximum norm of the gradient; larger ones are scaled down")
    evaluate_every: int = Field(1, ge=1, description="epochs between two evaluations on validation")
    patience: int = Field(20, ge=1, description="evaluations without improvement before training stops")
    metric: str = Field(
        "recall@20",
        pattern=r"^(recall|ndcg|hit|mrr|map)@[1-9]\d{0,5}$",
        description="metric on validation that selects the best epoch",
    )
    hard_from: int | None = Field(None, ge=1, description="epoch from which negatives are hard (a second stage)")
    hard_history: float = Field(0.4, ge=0, le=1, description="share of negatives with many of the user's items")
    hard_contents: float = Field(0.4, ge=0, le=1, description="share of negatives with many of the positive's items")
    hardest: float = Field(0.3, gt=0, le=1, description="share of all bundles that counts as hard")

    @model_validator(mode="after")
    def _check_shares(self) -> Self:
        if self.hard_history + self.hard_contents > 1:
            raise ValueError("hard_history and hard_contents are shares: their sum must be at most 1")
        return self


class RunConfig(Config):
    """All settings that determine a run."""

    data: str = Field(description="the data folder")
    model: str = Field(description="the model's name")
    seed: int = Field(0, ge=0, description="seed of all random draws")
    settings: dict[str, Any] = Field(default_factory=dict, description="the model's settings")
    train: TrainConfig = Field(description="how it is trained")
    paradigm: str = Field("original", description="the training strategy: original, clbr or casr")
    views: ViewsConfig | None = Field(None, description="its counterfactual views, if the paradigm has any")

    @model_validator(mode="after")
    def _check_views(self) -> Self:
        has_views = find_strategy(self.paradigm).config_class is not None
        if has_views != (self.views is not None):
            raise ValueError(f"the paradigm {self.paradigm} {'needs' if has_views else 'has no'} views")
        return self


class Preset(Config):
    """Settings of a model, of its training and of its views that were found together.

    `views` may also hold settings of model and training: those that differ when the model is trained with views.
    """

    settings: dict[str, Any] = Field(default_factory=dict)
    train: dict[str, Any] = Field(default_factory=dict)
    views: dict[str, Any] = Field(default_factory=dict, description="for the paradigm clbr, or casr if its sampler is")

    def extend(self, other: "Preset") -> "Preset":
        """Return both presets combined; where they differ, the other's value."""
        return Preset(
            settings=self.settings | other.settings, train=self.train | other.train, views=self.views | other.views
        )


def compose(
    data: str,
    model: str,
    *,
    preset: str | None = None,
    data_name: str = "",
    by_data: Mapping[str, Any] | None = None,
    changes: dict[str, Any] | None = None,
    seed: int = 0,
    paradigm: str = "original",
) -> RunConfig:
    """Return the settings of a run: the model's defaults, then `by_data`, then the preset, then `changes`.

    `changes` are settings of model, training or views, by name. `preset` is the name of a shipped preset or a path that
    ends in .toml. None: the shipped preset that fits `data_name`, if there is one. "none": no preset. `by_data` is what
    `defaults_by_data` gives; with a preset for a data set a batch is never smaller than its default. If the batch size
    follows from the data and is above its default, the learning rate is scaled (`scaled_learning_rate`), unless
    `changes` or a preset file sets it. Raises `InputError` for unknown names, settings and values.
    """
    model_class, strategy = find_model(model), find_strategy(paradigm)
    name, base = find_preset(model, preset, data_name, paradigm)
    of_casr = base.views.get("sampler") == "casr"
    if of_casr and paradigm == "clbr":  # to ignore them would draw other views than the preset says
        message = f"preset {name}: its views are those of casr; choose the paradigm casr, or remove its [views]"
        raise InputError(message, "paradigm")
    preset_views = base.views if strategy.config_class and of_casr == (paradigm == "casr") else {}
    settings, train, views = _sort_settings(preset_views | (changes or {}), model, strategy)
    config: dict[str, Any] = {"data": data, "model": model, "seed": seed, "paradigm": paradigm}
    by_data = dict(by_data or {})
    model_by_data = {key: by_data.pop(key) for key in [*by_data] if key in model_class.config_class.model_fields}
    checked = model_class.config_class.make(model_by_data | base.settings | settings, f"settings of {model}")
    config["settings"] = checked.model_dump(mode="json")
    if name and not name.endswith(".toml") and name not in ANY_DATA and "batch_size" in by_data:  # found with 2,048
        by_data["batch_size"] = max(by_data["batch_size"], TrainConfig().batch_size)
    made = _make_train(by_data | base.train | train, model)
    given = base.train | (changes or {}) if name.endswith(".toml") else changes or {}
    if "batch_size" in by_data and "batch_size" not in base.train | train and "learning_rate" not in given:
        made = made.model_copy(update={"learning_rate": scaled_learning_rate(made.learning_rate, made.batch_size)})
    config["train"] = made.model_dump(mode="json", exclude_none=True)
    if config["train"].get("hard_from") and config["settings"].get("objective", "bpr") != "bpr":
        message = f"hard_from: the objective {config['settings']['objective']} draws no negatives"
        raise InputError(f"{message}; leave it out, or set objective to bpr", "hard_from", "set")
    if strategy.config_class is not None:
        if not issubclass(model_class, Encoder) or not model_class.relations:
            message = f"{model} computes no embeddings from a graph, and {paradigm} needs a model that does"
            raise InputError(f"{message}; choose another model, or the paradigm original", "model", "paradigm")
        checked = strategy.config_class.make(views, f"views of {paradigm}")
        config["views"] = checked.model_dump(mode="json", exclude_none=True)
    return RunConfig.make(config)


def _sort_settings(
    given: dict[str, Any], model: str, strategy: type[Strategy]
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Sort settings by their names into those of the model, of training and of views."""
    settings, train, views = dict[str, Any](), dict[str, Any](), dict[str, Any]()
    fields = find_model(model).config_class.model_fields
    for key, value in given.items():
        if key in TrainConfig.model_fields:
            train[key] = value
        elif key in fields:
            settings[key] = value
        elif key not in ViewsConfig.model_fields:
            known = [*fields, *TrainConfig.model_fields, *ViewsConfig.model_fields]
            raise InputError(f"unknown setting '{key}' of {model}, {nearest(key, known)}")
        elif strategy.config_class is None:
            message = f"'{key}' is a setting of counterfactual views, which the paradigm {strategy.name} does not have"
            raise InputError(f"{message}; choose the paradigm clbr", "paradigm")
        else:
            views[key] = value
    return settings, train, views


def defaults_by_data(model: str, dataset: BundleDataset) -> dict[str, Any]:
    """Return the settings whose defaults depend on a data set.

    These are the batch size and those that the model names. Where cold bundles have a tenth of the validation pairs or
    more, they are calibrated; where cold users have as many, only users with bundles have vectors of their own.
    """
    found, pairs = find_model(model), len(dataset.train)
    if issubclass(found, ClosedForm):
        return {}
    settings: dict[str, Any] = {"batch_size": default_batch_size(pairs)} | found.defaults_for(pairs)
    if "calibrate_cold" in found.config_class.model_fields:
        settings["calibrate_cold"] = cold_share(dataset.train, dataset.validation, "bundles") >= COLD_SHARE
    if "user_vectors" in found.config_class.model_fields:
        of_cold_users = cold_share(dataset.train, dataset.validation, "users")
        settings["user_vectors"] = "choosers" if of_cold_users >= COLD_SHARE else "all"
    return settings


def settings_by_data(model: type[Model]) -> set[str]:
    """Return the names of the settings whose defaults depend on the data."""
    if issubclass(model, ClosedForm):
        return set()
    return {"batch_size", "learning_rate", "calibrate_cold", "user_vectors", *model.defaults_for(1 << 62)}


def default_batch_size(pairs: int) -> int:
    """Return the batch size for a number of training pairs: the power of two that gives 16 to 31 steps an epoch.

    Small data need small batches: with one step an epoch a model has learned little when its patience ends. Large data
    need large ones: each step computes the vectors of all nodes, so with a fixed size an epoch would cost edges times
    pairs.
    """
    return max(SMALLEST_BATCH, 1 << (max(1, pairs // STEPS).bit_length() - 1))


def scaled_learning_rate(rate: float, batch_size: int) -> float:
    """Return the learning rate for a batch that grew with the data, given the one for batches of the fixed default.

    It grows with the fourth root of the batch: a larger batch has a less noisy gradient, and an epoch of large data has
    no more steps than one of small data. The square root, the rule for Adam (Malladi et al., NeurIPS 2022), is faster,
    but ends less accurate here (results/scale.md).
    """
    growth = max(1.0, batch_size / TrainConfig().batch_size)
    return float(f"{rate * growth**0.25:.3g}") if growth > 1 else rate


def _make_train(train: dict[str, Any], model: str) -> TrainConfig:
    """Return the training settings: the model's defaults and those given.

    A closed-form model has one epoch and no training setting but the metric.
    """
    config = TrainConfig.make(find_model(model).train_defaults | train, "training")
    if not issubclass(find_model(model), ClosedForm):
        return config
    fixed = TrainConfig(epochs=1, metric=config.metric)
    for key in train:
        if getattr(config, key) != getattr(fixed, key):
            raise InputError(f"{model} is computed in closed form and has no setting '{key}'; leave it out", key, "set")
    return fixed


def ineffective_edits(config: RunConfig) -> list[str]:
    """Return a warning for each relation that the views edit without effect, because the model does not use it."""
    edited = config.views.ratios if config.views else ()
    unused = [relation for relation in edited if relation not in find_model(config.model).relations]
    return [f"{without_effect(config.model, relation)} (ratio_{relation} is taken as 0)" for relation in unused]


def find_preset(model: str, preset: str | None, data_name: str = "", paradigm: str = "original") -> tuple[str, Preset]:
    """Return the name and the settings of the preset that `compose` uses; an empty name if it uses none.

    The name of a data set ("youshu") stands for its preset together with the one for this paradigm, if there is one.
    """
    preset = data_preset(model, data_name) if preset is None else preset
    if preset in (None, NO_PRESET):
        return "", Preset()
    if preset.endswith(".toml"):
        return preset, Preset.from_toml(Path(preset))
    shipped = _shipped_presets(model)
    if preset not in shipped:
        hint = nearest(preset, [*shipped, NO_PRESET])
        raise InputError(f"no preset '{preset}' for {model}, {hint}; or give a file that ends in .toml", "preset")
    base, _, views = preset.partition("-")
    if not views:
        preset = min((name for name in shipped if f"{name}-".startswith(f"{base}-{paradigm}-")), default=base)
    elif views.partition("-")[0] != paradigm:
        message = f"preset {preset}: is not for the paradigm {paradigm}; choose the preset {base}, or another paradigm"
        raise InputError(message, "preset", "paradigm")
    found = _read_preset(shipped[base], base)
    return preset, found if preset == base else found.extend(_read_preset(shipped[preset], preset))


def data_preset(model: str, data_name: str) -> str | None:
    """Return the shipped preset of a model for a data set, if there is one.

    It also fits parts of the data set (NetEasePartial) and simulated data like it (youshu-like-x0.25).
    """
    wanted = data_name.lower().partition("-like")[0].removesuffix("partial")
    return wanted if "-" not in wanted and wanted in _shipped_presets(model).keys() - set(ANY_DATA) else None


def preset_notes(model: str, preset: str | None, data_name: str = "", paradigm: str = "original") -> list[str]:
    """Return what a user should know about the preset that `compose` uses: its name, and a constraint of its own."""
    name, found = find_preset(model, preset, data_name, paradigm)
    if not name:
        return []
    notes = [f"preset {name}" + (f", chosen by the name of the data set, {data_name}" if preset is None else "")]
    constraint = found.views.get("constraint", PAPER_CONSTRAINT)
    if paradigm == "clbr" and constraint != PAPER_CONSTRAINT:
        notes.append(f"preset {name}: its constraint is '{constraint}', not the paper's '{PAPER_CONSTRAINT}'")
    beyond = [key for key in BEYOND_PAPER if paradigm == "clbr" and found.views.get(key)]
    if beyond:
        notes.append(f"preset {name}: it sets {', '.join(beyond)}, which the paper's method does not have")
    return notes


def _shipped_presets(model: str) -> dict[str, Traversable]:
    """Return the preset files of a model by the name that follows the model's."""
    found = {path.name.removesuffix(".toml"): path for path in files("clbr.presets").iterdir()}
    return {name.removeprefix(f"{model}-"): path for name, path in found.items() if name.startswith(f"{model}-")}


def _read_preset(path: Traversable, name: str) -> Preset:
    return Preset.make(tomllib.loads(path.read_text(encoding="utf-8")), f"preset {name}")
